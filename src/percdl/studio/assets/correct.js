// Correct the events of a recording: remove, add, move, relabel, with undo. Each change is saved.

// The changes of each person are kept for undo as long as the tab is open: the event that was taken
// out, and the one that was put in. Another fit of the same name has others.
const CHANGES = `${report.file} ${report.history.objective.at(-1)}`;
const editing = { selected: null, changes: JSON.parse(sessionStorage.getItem(CHANGES) ?? "{}"), saved: Promise.resolve() };

function earlier() {
  return (editing.changes[subjectId(view.subject)] ??= []);
}

function selectedEvent() {
  return signal.events.find(({ onset }) => onset === editing.selected) ?? null;
}

function select(event) {
  editing.selected = event?.onset ?? null;
  if (event) {
    const [start, stop] = [event.onset / report.sfreq, (event.onset + event.length) / report.sfreq];
    const width = Math.min(signal.to - signal.from, 6 * (stop - start));
    if (start < signal.from || stop > signal.to || width < signal.to - signal.from) {
      look((start + stop - width) / 2, (start + stop + width) / 2);
    }
  }
  drawSignal();
  showEvent();
}

function showEvent() {
  const event = selectedEvent();
  const kind = event && nAtoms > 1 ? `${report.atoms[event.atom]}, ` : "";
  element("chosen-event").textContent = event
    ? `${kind}${(event.onset / report.sfreq).toFixed(3)} s, ${describeCycle(event)}`
    : `${signal.events.length} events`;
  for (const name of ["remove", "earlier", "later", "relabel"]) editButton(name).disabled = !event;
  editButton("undo").disabled = !earlier().length;
}

function editButton(name) {
  return document.querySelector(`[data-edit=${name}]`);
}

function overlaps(a, b) {
  return a.onset < b.onset + b.length && b.onset < a.onset + a.length;
}

// Takes an event out and puts one in, which is then selected; either can be null.
const change = guarded(async (out, into, isUndo = false) => {
  const events = signal.events.filter((one) => one !== out);
  if (into) {
    const clash = events.find((one) => overlaps(one, into));
    if (clash) throw new Error(`Events must not overlap, but this one would overlap the one at ${(clash.onset / report.sfreq).toFixed(3)} s. Remove that one first.`);
    if (into.onset < 0 || into.onset + into.length > report.lengths[view.subject]) throw new Error("An event must lie within the recording.");
    events.push(into);
    events.sort((a, b) => a.onset - b.onset);
  }
  if (isUndo) earlier().pop();
  else earlier().push({ out, into });
  signal.events = events;
  countFlagged();
  say("problem", "");
  select(into);
  const slim = events.map(({ atom, onset, length }) => ({ atom, onset, length }));
  const question = { file: report.file, s: view.subject, events: slim };
  element("corrected").textContent = "Saving…";
  // One after the other, so that the last change wins; only its answer is shown.
  const saved = editing.saved.then(() => ask("correct", question));
  const done = saved.catch(() => element("corrected").textContent = "The last change was not saved.");
  editing.saved = done;
  const { n_corrections } = await saved;
  sessionStorage.setItem(CHANGES, JSON.stringify(editing.changes));
  if (editing.saved === done) showCorrections(n_corrections);
});

function made(onset, like) {
  const length = like?.length ?? report.length;
  return { atom: like?.atom ?? view.atom, onset: Math.round(onset), amplitude: null, length, quality: null, flagged: false };
}

function stepTo(by) {
  const { events } = signal;
  const at = events.findIndex(({ onset }) => onset === editing.selected);
  const middle = ((signal.from + signal.to) / 2) * report.sfreq;
  const near = events.findIndex(({ onset, length }) => onset + length / 2 >= middle);
  const next = at < 0 ? Math.max(near, 0) : Math.min(Math.max(at + by, 0), events.length - 1);
  if (events.length) select(events[next]);
}

const moved = (by) => (event) => event && change(event, made(event.onset + by, event));
const relabelled = (atom) => (event) => event && event.atom !== atom && change(event, { ...made(event.onset, event), atom });

const edits = {
  previous: () => stepTo(-1),
  next: () => stepTo(1),
  flagged: () => {
    const flagged = signal.events.filter((event) => event.flagged);
    const next = flagged.find(({ onset }) => onset > (editing.selected ?? -1)) ?? flagged[0];
    if (next) select(next);
  },
  remove: (event) => event && change(event, null),
  insert: (event) => {
    const onset = event ? event.onset + event.length : ((signal.from + signal.to) / 2) * report.sfreq;
    return change(null, made(onset, event));
  },
  earlier: moved(-1),
  later: moved(1),
  tenEarlier: moved(-10),
  tenLater: moved(10),
  relabel: (event) => event && relabelled((event.atom + 1) % nAtoms)(event),
  undo: () => {
    const { out, into } = earlier().at(-1) ?? {};
    const shown = signal.events.find(({ onset }) => onset === into?.onset) ?? null;
    if (out || shown) {
      if (!into || shown) return change(shown, out, true);
      earlier().length = 0; // the changes that were kept are those of other events
    }
    return showEvent();
  },
};

const EDIT_KEYS = {
  f: "flagged", n: "next", p: "previous", Delete: "remove", Backspace: "remove", a: "insert",
  "[": "earlier", "]": "later", ShiftArrowLeft: "tenEarlier", ShiftArrowRight: "tenLater", k: "relabel", u: "undo",
};
// Digits are atoms.
for (let atom = 0; atom < Math.min(nAtoms, 9); atom++) {
  EDIT_KEYS[atom + 1] = `atom${atom}`;
  edits[`atom${atom}`] = relabelled(atom);
}

// The time under a click on the chart.
function timeAt(place, pointer) {
  const { xaxis } = place._fullLayout;
  const left = place.getBoundingClientRect().left + xaxis._offset;
  return xaxis.p2d(pointer.clientX - left) * report.sfreq;
}

function clickAt(at) {
  const event = selectedEvent();
  const mode = element("click").value;
  if (mode === "add") return change(null, made(at));
  if (mode === "move" && event) return change(event, made(at, event));
  return select(signal.events.find(({ onset, length }) => onset <= at && at < onset + length) ?? null);
}

function listenToCorrections() {
  moves.flagged = () => edits.flagged(); // selects it as well
  for (const button of document.querySelectorAll("[data-edit]")) {
    button.addEventListener("click", () => edits[button.dataset.edit](selectedEvent()));
  }
  element("signal-frame").addEventListener("keydown", (pressed) => {
    if (pressed.target.closest("input, select") || pressed.altKey) return;
    const isUndo = pressed.key === "z" && (pressed.ctrlKey || pressed.metaKey);
    const shift = pressed.shiftKey && pressed.key.startsWith("Arrow") ? "Shift" : "";
    const name = isUndo ? "undo" : EDIT_KEYS[shift + pressed.key];
    if (!name || (!isUndo && (pressed.ctrlKey || pressed.metaKey))) return;
    pressed.preventDefault();
    edits[name](selectedEvent());
  });
  const place = element("signal");
  let [down, up] = [null, null];
  place.addEventListener("pointerdown", (pointer) => (down = pointer), true);
  window.addEventListener("pointerup", (pointer) => (up = pointer), true);
  place.addEventListener("click", ({ target }) => {
    const began = down;
    down = null; // the chart sends a click of its own, without a place, before that of the browser
    // A drag zooms; only a click without a way counts.
    const isClick = began && Math.abs(up.clientX - began.clientX) <= (began.pointerType === "mouse" ? 3 : 12);
    if (!isClick || target.closest(".modebar, .legend")) return;
    const at = timeAt(place, began);
    setTimeout(() => clickAt(at)); // after both, which close messages
  }, true);
  showEvent();
}

chosePerson = () => {
  editing.selected = null;
  showEvent();
};

// The selected event, framed.
addShapes = () => {
  const event = selectedEvent();
  if (!event) return [];
  return [{
    type: "rect", xref: "x", yref: "paper", y0: 0, y1: 1,
    x0: event.onset / report.sfreq, x1: (event.onset + event.length) / report.sfreq,
    line: { width: 3, color: theme().text },
  }];
};
