// The selected person: numbers, atom, warp, departure from the reference, events.

const person = {};

// Range of local speeds in view: they can be extreme at the ends of a cycle.
const SPEEDS = [0.23, 4.3];
// Range of z-scores in view: they can be huge where the reference hardly varies.
const FAR = 10;

async function choose(s) {
  person.wanted = s;
  if (s === view.subject && signal.seen) return; // on the screen, maybe with corrections that are not saved yet
  const own = await readPerson(s);
  if (person.wanted !== s) return; // another person was selected meanwhile
  view.subject = s;
  Object.assign(person, own);
  setSignal(s, own);
  history.replaceState(null, "", `#subject=${encodeURIComponent(subjectId(s))}`);
  markChosen();
  drawSubject();
  chosePerson();
}

function drawSubject() {
  writeNumbers();
  drawSignal();
  drawAtom();
  drawWarp();
  drawDeparture();
  markPoint();
}

function writeNumbers() {
  const s = view.subject;
  element("who").textContent = subjectId(s);
  const note = element("suspect");
  note.textContent = report.suspects[s];
  note.hidden = !report.suspects[s];
  element("words").replaceChildren(...person.words.map((text) => build("li", {}, text)));
  const known = report.columns.slice(1).map((column) => ({ ...column, text: cellText(column, column.values[s]) }));
  const pairs = [...known, ...addNumbers()].map(({ label, title, text }) =>
    build("div", {}, build("dt", {}, label, why(label, title)), build("dd", {}, text)),
  );
  element("numbers").replaceChildren(...pairs);
}

// Onsets of the atom in view; without any, the person has no version of it.
function ownEvents() {
  return signal.events.filter(({ atom }) => atom === view.atom);
}

function emptyOr(traces) {
  const none = !ownEvents().length;
  for (const note of document.querySelectorAll(".no-atom")) note.hidden = !none;
  return none ? [] : traces;
}

// Two standard deviations around the mean of the reference, at the person's amplitude.
function referenceBand(size) {
  const reference = comparison.groups?.find(({ name }) => name === report.groups.reference);
  if (!reference) return [];
  const [mean, sd] = reference.atoms.map((curves) => scaled(inView(curves), size / report.sizes[view.atom]));
  const [low, high] = [-2, 2].map((width) => mean.map((value, i) => value + width * sd[i]));
  return band(times(), low, high, `${reference.name}, 2 standard deviations`, COLORS[2], 0.2);
}

function drawAtom() {
  const size = median(ownEvents().map(({ amplitude }) => amplitude).filter((z) => z !== null));
  draw(
    "subject-atom",
    emptyOr([
      ...referenceBand(size),
      line(times(), scaled(inView(shared.common), size), "common atom", theme().shared, { dash: "dash" }),
      line(times(), scaled(inView(person.personal), size), "personal atom", COLORS[1], { width: 3 }),
      ...landmarks(scaled(inView(person.personal), size), ({ own }) => own[view.subject]),
    ]),
    { xaxis: axis("time (s)"), yaxis: axis(signalLabel(view.channel)), shapes: named("height", view.channel) },
  );
}

// The warp that acts on the channel in view.
function warpInView() {
  return report.n_warps > 1 ? view.channel : 0;
}

// The curve, among one per atom and warp, of the warp in view.
function ofWarp(curves) {
  return curves[view.atom * report.n_warps + warpInView()];
}

// Behind a chart, the parts of the atom in view that the sentences name.
function named(kind, row) {
  const shown = person.phases.filter((phase) => phase.kind === kind && phase.atom === view.atom && phase.row === row);
  const look = { fillcolor: faded(NAMED, 0.25), line: { width: 0 }, layer: "below" };
  return shown.map(({ start, stop }) => bar(times()[start], times()[stop], look));
}

function drawWarp() {
  for (const figure of document.querySelectorAll(".warp")) figure.hidden = !report.n_warps;
  if (!report.n_warps) return;
  const speed = ofWarp(person.speeds);
  const layout = { xaxis: axis("time of the population (s)"), shapes: named("pace", warpInView()) };
  draw(
    "subject-warp",
    emptyOr([
      line(times(), times(), "the population", theme().shared, { width: 1, dash: "dash" }),
      line(times(), scaled(ofWarp(person.times), 1 / clock()), "this person", COLORS[1], { width: 3 }),
    ]),
    { ...layout, yaxis: axis("this person's time (s)") },
  );
  const ones = times().map(() => 1);
  const fill = { width: 0, fill: "tonexty", hoverinfo: "skip" };
  draw(
    "subject-speed",
    emptyOr([
      line(times(), ones, "the population", theme().shared, { width: 1, dash: "dash" }),
      line(times(), speed.map((v) => Math.min(v, 1)), "slower", SLOW, { ...fill, fillcolor: faded(SLOW, 0.35) }),
      line(times(), ones, "", SLOW, { width: 0, hoverinfo: "skip", showlegend: false }),
      line(times(), speed.map((v) => Math.max(v, 1)), "faster", FAST, { ...fill, fillcolor: faded(FAST, 0.35) }),
      line(times(), speed, "local speed", theme().text, { width: 2 }),
    ]),
    {
      ...layout,
      yaxis: axis("local speed (population = 1)", {
        type: "log",
        range: SPEEDS.map(Math.log10),
        tickvals: [0.25, 0.5, 1, 2, 4],
      }),
    },
  );
}

// z-scores along the cycle.
function drawDeparture() {
  const figure = element("departure-figure");
  figure.hidden = !person.departure;
  if (!person.departure) return;
  const two = (y) => line(times(), times().map(() => y), "2 standard deviations", theme().soft, {
    width: 1, dash: "dash", showlegend: y > 0, hoverinfo: "skip",
  });
  // For each atom, first a curve per warp, then one per channel.
  const own = person.departure.slice(view.atom * (report.n_warps + nChannels));
  const timing = own[warpInView()];
  const traces = [two(2), two(-2), line(times(), own[report.n_warps + view.channel], "personal atom (own time)", COLORS[1])];
  if (report.n_warps) traces.push(line(times(), timing, "local speed (population's time)", COLORS[0], { dash: "dot" }));
  const far = traces.some(({ y }) => y.some((z) => Math.abs(z) > FAR));
  draw("subject-departure", emptyOr(traces), {
    xaxis: axis("time (s)"),
    shapes: [...named("pace", warpInView()), ...named("height", view.channel)],
    yaxis: axis(`standard deviations from ${report.groups.reference}`, far ? { range: [-FAR, FAR] } : {}),
  });
}

function csvCell(text) {
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

async function eventsCsv(subjects) {
  const own = report.own_lengths ? ",duration_samples,duration_seconds" : "";
  const lines = [`subject,atom,onset_sample,onset_seconds,amplitude${own},quality,flagged`];
  for (const s of subjects) {
    const { events } = await findPerson(s);
    for (const { atom, onset, amplitude, length, quality, flagged } of listEvents(events)) {
      const cells = [csvCell(subjectId(s)), atom, onset, onset / report.sfreq, amplitude];
      if (own) cells.push(length, length / report.sfreq);
      lines.push([...cells, quality, flagged].join(","));
    }
  }
  return lines.join("\n") + "\n";
}

function download(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  build("a", { href, download: name }).click();
  // Later, because some browsers read the text with a delay.
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

// The person in view, as part of the name of a file.
function fileName() {
  return subjectId(view.subject).replace(/[^\p{L}\p{N}._-]+/gu, "_");
}

function listenToSubject() {
  element("previous").addEventListener("click", () => step(-1));
  element("next").addEventListener("click", () => step(1));
  element("download").addEventListener("click", async () => {
    download(`events_${fileName()}.csv`, await eventsCsv([view.subject]));
  });
  element("download-all").addEventListener("click", async () => {
    download("events.csv", await eventsCsv(rows.keys()));
  });
}
