// From files to a fit: choose, look, ask for a suggestion, fit.

const setup = { files: [], chosen: new Set(), columns: [], recording: null, length: null };

const SETTINGS = ["n_atoms", "atom_length", "penalty", "transformation", "stretch", "baseline", "loss"];
// The columns of the table of people that commands use, and their usual names.
const OF_PEOPLE = { metadata_subject: /^(subject|participant_id)$/i, group: /^(group|diagnosis|class|cohort)$/i, person: /^person(_?id)?$/i };

// What fields say, by their names, which are those of options.
function valuesOf(ids) {
  return Object.fromEntries(ids.map((id) => [id, element(id).value]));
}

// The options about recordings, as the command line has them.
function readingOptions() {
  const number = (id) => (element(id).value === "" ? null : Number(element(id).value));
  const channels = [...document.querySelectorAll("#channels input:checked")].map(({ value }) => value);
  const [low, high] = [number("low"), number("high")];
  return {
    channels,
    time: element("time").value,
    sfreq: number("sfreq"),
    units: element("units").value.trim(),
    delimiter: element("delimiter").value,
    decimal: element("decimal").value,
    skip_lines: number("skip_lines"),
    resample: number("resample"),
    bandpass: low === null && high === null ? null : [low ?? 0, high ?? "inf"],
    zscore: element("zscore").checked || null,
  };
}

const NO_FILES = "There are no recordings in this folder. Put CSV, TSV, TXT, Parquet, NPZ, EDF or WFDB (.hea) files into it and reload the page.";

function recordings() {
  return setup.files.filter(({ name }) => name !== element("metadata").value);
}

// The chosen files by name: a model of the whole folder would take in whatever is added later.
function chosenData() {
  const all = recordings();
  if (!all.length) throw new Error(NO_FILES);
  const chosen = all.filter(({ name }) => setup.chosen.has(name)).map(({ name }) => name);
  if (!chosen.length) throw new Error("Choose at least one file.");
  return chosen;
}

async function listFiles() {
  const { recordings: files, models, more, job } = await ask("files");
  Object.assign(setup, { job, files });
  setup.chosen = new Set(files.map(({ name }) => name));
  if (more) say("problem", "This folder holds more files than are listed: start the studio in a smaller one.");
  const tables = files.filter(({ name }) => /\.(csv|tsv)$/i.test(name));
  element("metadata").replaceChildren(new Option("none", ""), ...tables.map(({ name }) => new Option(name, name)));
  const usual = tables.find(({ name }) => /(^|\/)(participants|subjects|metadata|people)\.(csv|tsv)$/i.test(name));
  if (usual) element("metadata").value = usual.name;
  showModels(models);
  showFiles();
  let [free, n] = ["model", 1];
  while (models.some(({ name }) => name === `${free}.percdl`)) free = `model-${++n}`;
  element("name").value = free;
}

function showModels(models) {
  element("no-models").hidden = models.length > 0;
  element("model-list").replaceChildren(
    ...models.map(({ name, changed }) => {
      const when = new Date(changed * 1000).toLocaleString();
      if (!name.endsWith(".checkpoint")) {
        const link = build("a", { href: `/model?file=${encodeURIComponent(name)}`, textContent: name });
        return build("li", {}, link, ` ${when}`);
      }
      const button = build("button", { type: "button", textContent: "Continue" });
      button.addEventListener("click", guarded(() => finish("fit", { resume: name })));
      return build("li", {}, `${name}, interrupted ${when} `, button);
    }),
  );
}

function showFiles() {
  const words = element("find-file").value.trim().toLowerCase();
  const shown = recordings().filter(({ name }) => name.toLowerCase().includes(words));
  element("files").replaceChildren(
    ...shown.map(({ name, bytes }) => {
      const box = build("input", { type: "checkbox", checked: setup.chosen.has(name), value: name });
      box.addEventListener("change", () => {
        box.checked ? setup.chosen.add(name) : setup.chosen.delete(name);
        countFiles();
      });
      return build("label", {}, box, ` ${name} `, build("span", { className: "soft", textContent: size(bytes) }));
    }),
  );
  countFiles();
}

function size(bytes) {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function countFiles() {
  const files = recordings();
  const chosen = files.filter(({ name }) => setup.chosen.has(name));
  element("chosen-files").textContent = files.length ? `${chosen.length} of ${files.length} files` : NO_FILES;
  const select = element("preview-file");
  const before = select.value;
  select.replaceChildren(...chosen.map(({ name }) => new Option(name, name)));
  if (chosen.some(({ name }) => name === before)) select.value = before;
}

function chooseShown(wanted) {
  for (const box of document.querySelectorAll("#files input")) {
    wanted ? setup.chosen.add(box.value) : setup.chosen.delete(box.value);
  }
  showFiles();
}

// The columns of the file in the preview: channels to choose, and which of them is the time.
async function readColumns() {
  const name = element("preview-file").value;
  if (!name) return;
  const { skip_lines } = readingOptions();
  const { columns, ...signs } = await ask("columns", { name, skip_lines, delimiter: element("delimiter").value });
  for (const [id, sign] of Object.entries(signs)) element(id).value ||= sign;
  if (columns.join("\n") === setup.columns.join("\n")) return;
  setup.columns = columns;
  const time = columns.find((column) => /^(t|time|times|seconds|timestamp)\b/i.test(column)) ?? "";
  element("time").replaceChildren(new Option("none", ""), ...columns.map((column) => new Option(column, column)));
  element("time").value = time;
  const boxes = columns.filter((column) => column !== time).map((column) => {
    const box = build("input", { type: "checkbox", value: column, checked: true });
    box.addEventListener("change", () => preview());
    return build("label", {}, box, ` ${column}`);
  });
  element("channels").replaceChildren(...boxes);
}

async function readPeople() {
  const name = element("metadata").value;
  const { columns } = name ? await ask("columns", { name }) : { columns: [] };
  for (const [id, usual] of Object.entries(OF_PEOPLE)) {
    element(id).replaceChildren(new Option("none", ""), ...columns.map((column) => new Option(column, column)));
    element(id).value = columns.find((column) => usual.test(column)) ?? "";
  }
}

async function preview(first = () => null) {
  const turn = (setup.turn = Symbol("turn"));
  try {
    await first();
    await readPreview(turn);
  } catch (error) {
    if (turn === setup.turn) showNoPreview(error.message);
  }
}

// Says why there is no picture; that of another file would mislead.
function showNoPreview(why) {
  setup.recording = null;
  say("preview-note", why);
  element("candidates").replaceChildren();
  for (const id of ["preview", "similar", "spectrum"]) Plotly.purge(id);
}

async function readPreview(turn) {
  const file = element("preview-file").value;
  if (!file) return showNoPreview("");
  if (!element("time").value && !element("sfreq").value && /\.(csv|tsv|txt|parquet)$/i.test(file)) {
    return showNoPreview("Choose the column of times, or type the number of samples per second.");
  }
  const found = await ask("preview", { options: readingOptions(), file });
  const curves = await unpack(found.curves);
  if (turn !== setup.turn) return; // another file was chosen meanwhile
  setup.recording = { ...found, curves };
  const missing = found.missing ? `, ${(100 * found.missing).toFixed(1)}% missing` : "";
  const others = found.n_recordings > 1 ? `, the first of ${found.n_recordings} in the file` : "";
  const seconds = (found.n_times / found.sfreq).toPrecision(4);
  say("preview-note", `${found.subject}: ${seconds} s at ${found.sfreq} Hz${missing}${others}`);
  element("candidates").replaceChildren(
    ...found.candidates.map(({ seconds: length, similarity }) => {
      const text = `${length.toPrecision(3)} s (${similarity.toFixed(2)})`;
      const button = build("button", { type: "button", textContent: text });
      button.addEventListener("click", () => chooseLength(length));
      return button;
    }),
  );
  drawPreview();
}

function chooseLength(seconds) {
  setup.length = seconds;
  element("atom_length").value = `${seconds.toPrecision(4)}s`;
  drawPreview();
}

function drawPreview() {
  if (!setup.recording) return;
  const { curves, channels, units, sfreq, run, n_times: n, similar, spectrum: [frequencies, shares], candidates } = setup.recording;
  const each = run === 1 ? 1 / sfreq : run / sfreq / 2;
  const unit = new Set(units).size === 1 && units[0] ? ` (${units[0]})` : "";
  draw(
    "preview",
    curves.map((curve, i) => line(curve.map((_, j) => j * each), curve, channels[i], pick(COLORS, i), { width: 1.5 })),
    { xaxis: axis("time (s)"), yaxis: axis(`signal${unit}`), shapes: windows(n / sfreq), showlegend: true },
  );
  const marks = (x, y) => ({ x, y, name: "candidates", mode: "markers", marker: { color: COLORS[1], size: 10, symbol: "diamond" } });
  const seconds = candidates.map((candidate) => candidate.seconds);
  const lags = similar.values.map((_, i) => (i * similar.step) / sfreq);
  draw(
    "similar",
    [line(lags, similar.values, "similarity with itself", COLORS[0]), marks(seconds, candidates.map(({ similarity }) => similarity))],
    { xaxis: axis("shift (s)"), yaxis: axis("similarity", { range: [-1, 1.05] }), showlegend: true },
  );
  const near = (hz) => shares[Math.round(hz / frequencies[1])];
  draw(
    "spectrum",
    [line(frequencies.slice(1), shares.slice(1), "power", COLORS[0]), marks(seconds.map((s) => 1 / s), seconds.map((s) => near(1 / s)))],
    { xaxis: axis("frequency (Hz)", { type: "log" }), yaxis: axis("share of the power", { type: "log", exponentformat: "power" }), showlegend: true },
  );
}

// Windows of the chosen length from the middle of the recording on, to compare with the pattern.
function windows(duration) {
  if (!setup.length) return [];
  const start = Math.max(0, duration / 2 - 1.5 * setup.length);
  return [0, 1, 2].map((i) => ({
    type: "rect", xref: "x", yref: "paper", y0: 0, y1: 1, layer: "below",
    x0: start + i * setup.length, x1: start + (i + 1) * setup.length,
    fillcolor: faded(COLORS[1], i % 2 ? 0.1 : 0.25), line: { width: 1, color: COLORS[1] },
  }));
}

const suggest = guarded(async () => {
  say("suggestion", "");
  const done = await runCommand("suggest", { ...readingOptions(), data: chosenData() });
  if (!done) return;
  const { n_atoms: kinds, atom_length: length, atom_seconds: seconds, penalty, period, confidence } = done;
  const price = Number(penalty.toPrecision(3));
  const because = period
    ? `Recordings repeat every ${((period * seconds) / length).toPrecision(3)} s (median; similarity of cycles ${confidence.toFixed(2)} of 1). `
    : "";
  say("suggestion", `${because}Length ${seconds.toPrecision(3)} s, so that hardly any cycle is shorter; ${kinds} kind${kinds === 1 ? "" : "s"}; price ${price}, from the noise.`);
  element("n_atoms").value = kinds;
  element("penalty").value = price;
  chooseLength(seconds);
});

async function finish(command, options) {
  await showResult(runCommand(command, options));
}

async function showResult(command) {
  const done = await command;
  showModels((await ask("files")).models);
  if (done?.out) location.href = `/model?file=${encodeURIComponent(done.out)}`;
}

const start = guarded(async () => {
  const name = element("name").value.trim().replace(/\.percdl$/, "");
  if (!name) throw new Error("Give the model a name.");
  const settings = valuesOf([...SETTINGS, "metadata", ...Object.keys(OF_PEOPLE)]);
  await finish("fit", { ...readingOptions(), ...settings, out: `${name}.percdl`, data: chosenData() });
});

async function begin() {
  await listFiles();
  await readPeople();
  await preview(readColumns);
  element("find-file").addEventListener("input", showFiles);
  element("all-files").addEventListener("click", () => chooseShown(true));
  element("no-files").addEventListener("click", () => chooseShown(false));
  element("preview-file").addEventListener("change", () => preview(readColumns));
  element("metadata").addEventListener("change", guarded(() => readPeople().then(showFiles)));
  for (const id of ["delimiter", "skip_lines"]) element(id).addEventListener("change", () => preview(readColumns));
  for (const id of ["units", "decimal", "time", "sfreq", "resample", "low", "high", "zscore"]) element(id).addEventListener("change", () => preview());
  element("suggest").addEventListener("click", suggest);
  element("start").addEventListener("click", start);
  listenToProgress();
  for (const change of [dark, paper]) change.addEventListener("change", drawPreview);
  document.documentElement.dataset.ready = "yes";
  if (setup.job !== null) await showResult(follow(setup.job)); // another page began it
}

guarded(begin)();
