// A model in the studio: curves come from the server, landmarks and results are saved.

findPerson = async (s) => {
  await editing.saved;
  return ask("person", { file: report.file, s });
};

// Samples of the part in view, and of as much on both sides, once it is finer than what is drawn.
refine = guarded(async () => {
  const { seen } = signal;
  const [from, to] = [signal.from * report.sfreq, signal.to * report.sfreq];
  const width = to - from;
  const end = seen.start + (seen.curves[0].length * seen.run) / (seen.run === 1 ? 1 : 2);
  const covered = seen.start <= Math.floor(from) && Math.min(to, report.lengths[view.subject]) <= end;
  if (covered && (seen.run === 1 || seen.run <= (1.5 * width) / N_BINS)) return;
  const turn = (signal.turn = Symbol("turn"));
  const [start, stop] = [Math.floor(from - width), Math.ceil(to + width)];
  const piece = await readPiece(await ask("piece", { file: report.file, s: view.subject, start, stop }));
  if (signal.turn !== turn || signal.seen !== seen) return; // the view moved on
  Object.assign(signal, piece);
  drawSignal();
});

// Landmarks at their times in every cycle of the person, on the recording.
function landmarksInCycles(channel) {
  const marks = (report.marks ?? []).filter((mark) => mark.own[view.subject] !== null);
  const { start, run, curves } = signal.seen;
  return marks.map((mark, index) => {
    const own = signal.events.filter(({ atom }) => atom === mark.atom);
    const at = own.map(({ onset, length }) => onset + mark.own[view.subject] * report.clocks[mark.atom] * (length / report.length));
    const shown = at.filter((t) => t >= signal.from * report.sfreq && t <= signal.to * report.sfreq);
    const value = (t) => (run === 1 ? curves[channel][Math.round(t) - start] : null);
    return {
      x: shown.map((t) => t / report.sfreq),
      y: shown.map((t) => value(t) ?? 0),
      name: plain(mark.name),
      mode: "markers",
      marker: { color: pick(COLORS, index + 2), symbol: pick(MARKERS, index), size: 8, line: { width: 1, color: theme().ground } },
    };
  });
}

addTraces = (channels) => (signal.seen.run === 1 ? landmarksInCycles(channels[0]) : []);

// The time between neighbouring landmarks of an atom in everyone's usual cycle, in ms.
function intervals(atom) {
  const marks = (report.marks ?? []).filter((mark) => mark.atom === atom).sort((a, b) => a.time - b.time);
  return marks.slice(1).map((mark, i) => ({
    name: `${marks[i].name} to ${mark.name}`,
    own: mark.own.map((t, s) => (t === null || marks[i].own[s] === null ? null : 1000 * (t - marks[i].own[s]))),
  }));
}

addNumbers = () =>
  intervals(view.atom)
    .filter(({ own }) => own[view.subject] !== null)
    .map(({ name, own }) => ({
      label: name,
      title: "Interval between two landmarks in this person's usual cycle",
      text: `${own[view.subject].toFixed(0)} ms`,
    }));

// Such as "heel to toe: 612 ms (540 to 700 in 90 % of 150 recordings)".
function describeInterval({ name, own }) {
  const known = Float64Array.from(own.filter((t) => t !== null)).sort();
  if (!known.length) return `${name}: in no recording`;
  const [low, high] = [0.05, 0.95].map((share) => readAt(known, share * (known.length - 1)));
  const around = known.length > 1 ? ` (${low.toFixed(0)} to ${high.toFixed(0)} in 90 % of ${known.length} recordings)` : "";
  return `${name}: ${median(known).toFixed(0)} ms${around}`;
}

const saveMark = guarded(async () => {
  const marks = await ask("mark", {
    file: report.file,
    name: element("mark-name").value || "landmark",
    atom: view.atom,
    time: picked.time,
    channel: report.n_warps > 1 ? report.channels[view.channel] : null,
  });
  picked.time = null;
  element("picker").hidden = true;
  setMarks(marks);
});

const removeMark = guarded(async (name) => setMarks(await ask("unmark", { file: report.file, name })));

function setMarks(marks) {
  report.marks = marks;
  listMarks();
  element("mark-new").focus();
  drawOverview();
  drawSubject();
}

function listMarks() {
  const items = (report.marks ?? []).map(({ name, atom, time, channel }) => {
    const button = build("button", { type: "button", textContent: "Remove" });
    button.setAttribute("aria-label", `Remove the landmark ${name}`);
    button.addEventListener("click", () => removeMark(name));
    const where = `${name}: ${time.toFixed(3)} s${nAtoms > 1 ? `, ${report.atoms[atom]}` : ""}${channel ? `, ${channel}` : ""} `;
    return build("li", { className: "tools" }, where, button);
  });
  const between = Array.from({ length: nAtoms }, (_, atom) => intervals(atom)).flat();
  const texts = between.map((own) => build("li", {}, describeInterval(own)));
  element("marks").replaceChildren(...items, ...texts);
}

// What each button of the export writes: command, and options of the files.
const EXPORTS = {
  report: (stem) => ({ out: `${stem}.html` }),
  person: (stem) => ({ out: `${stem}_${fileName()}.html` }),
  personalize: (stem) => ({ out: `${stem}_params.csv`, events: `${stem}_events.csv` }),
  landmarks: (stem) => ({ out: `${stem}_landmarks.csv`, intervals: `${stem}_intervals.csv` }),
};

async function exportAs(command) {
  const files = EXPORTS[command](report.results);
  await editing.saved;
  const corrections = report.n_corrections ? report.corrections : null;
  const about = command === "person" ? subjectId(view.subject) : null;
  const compared = ["report", "person"].includes(command) ? report.compared : {};
  const options = { ...report.reading, ...compared, corrections, about, ...files };
  const done = await runCommand(command, { model: report.file, ...options });
  if (done) showWritten(Object.values(files));
}

function showWritten(names) {
  for (const name of names) {
    const href = `/file?name=${encodeURIComponent(name)}`;
    element("written").append(build("li", {}, build("a", { href, textContent: name, download: "" })));
  }
}

const refit = guarded(async () => {
  const out = `${element("refit-name").value.trim().replace(/\.percdl$/, "")}.percdl`;
  // From the atoms of this model, so that corrections keep their meaning.
  const { window, pre, label, ...options } = report.fit;
  const start = { n_atoms: report.n_atoms, init: report.file, corrections: report.corrections };
  const done = await runCommand("fit", { ...options, ...start, out });
  if (done) location.href = `/model?file=${encodeURIComponent(done.out)}`;
});

function showCorrections(n) {
  report.n_corrections = n;
  element("corrected").textContent = n
    ? `${n} correction${n === 1 ? "" : "s"} in ${report.corrections}. Exports and a new fit obey them; curves and numbers on this page are still those of the fit. Undo works until this tab is closed.`
    : "No corrections yet. Select events in a recording to remove, move or add some.";
  element("refit").disabled = !n;
}

listenToStudio = () => {
  listenToProgress();
  element("mark-save").addEventListener("click", saveMark);
  element("picker").addEventListener("keydown", (pressed) => {
    if (pressed.key === "Enter" && pressed.target.matches("input")) saveMark();
  });
  listMarks();
  for (const button of document.querySelectorAll("[data-export]")) {
    button.addEventListener("click", guarded(() => exportAs(button.dataset.export)));
  }
  element("refit-name").value = `${report.file.replace(/\.percdl$/, "")}-corrected`;
  element("refit").addEventListener("click", refit);
  showCorrections(report.n_corrections);
  listenToCorrections();
  listenToComparison();
  listenToLive();
};
