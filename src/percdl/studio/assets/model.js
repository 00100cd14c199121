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
  if (signal.turn !== turn) return; // the view moved on
  Object.assign(signal, piece);
  drawSignal();
});

// Landmarks at their times in every cycle of the person, on the recording.
function landmarksInCycles(channel) {
  const marks = (report.marks ?? []).filter((mark) => mark.own[view.subject] !== null);
  const { start, run, curves } = signal.seen;
  return marks.map((mark, index) => {
    const own = signal.events.filter(({ atom }) => atom === mark.atom);
    const at = own.map(({ onset, length }) => onset + mark.own[view.subject] * report.sfreq * (length / report.length));
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

// Intervals between neighbouring landmarks in this person's usual cycle, in ms.
addNumbers = () => {
  const own = (report.marks ?? []).filter((mark) => mark.atom === view.atom && mark.own[view.subject] !== null);
  own.sort((a, b) => a.own[view.subject] - b.own[view.subject]);
  return own.slice(1).map((mark, i) => ({
    label: `${own[i].name} to ${mark.name}`,
    title: "Interval between two landmarks in this person's usual cycle",
    text: `${(1000 * (mark.own[view.subject] - own[i].own[view.subject])).toFixed(0)} ms`,
  }));
};

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
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: "Remove" });
    button.setAttribute("aria-label", `Remove the landmark ${name}`);
    button.addEventListener("click", () => removeMark(name));
    const item = document.createElement("li");
    item.className = "tools";
    item.append(`${name}: ${time.toFixed(3)} s${nAtoms > 1 ? `, atom ${atom}` : ""}${channel ? `, ${channel}` : ""} `, button);
    return item;
  });
  element("marks").replaceChildren(...items);
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
    const link = document.createElement("a");
    link.href = `/file?name=${encodeURIComponent(name)}`;
    link.textContent = name;
    link.download = "";
    const item = document.createElement("li");
    item.append(link);
    element("written").append(item);
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
    ? `${n} correction${n === 1 ? "" : "s"} in ${report.corrections}. Exports and a new fit obey them. Undo works until this tab is closed.`
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
