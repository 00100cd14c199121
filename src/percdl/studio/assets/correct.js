// Correct the events of a recording: remove, add, move, relabel, with undo. Each change is saved.

const editing = { selected: null, before: [], saved: Promise.resolve() };

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
  const kind = event && nAtoms > 1 ? `atom ${event.atom}, ` : "";
  element("chosen-event").textContent = event
    ? `${kind}${(event.onset / report.sfreq).toFixed(3)} s, ${event.amplitude === null ? "yours" : describeCycle(event)}`
    : `${signal.events.length} events`;
  for (const name of ["remove", "earlier", "later", "relabel"]) editButton(name).disabled = !event;
  editButton("undo").disabled = !editing.before.length;
}

function editButton(name) {
  return document.querySelector(`[data-edit=${name}]`);
}

function overlaps(a, b) {
  return a.onset < b.onset + b.length && b.onset < a.onset + a.length;
}

// Replaces the events, if none overlap and all lie in the recording; `chosen` is selected then.
const change = guarded(async (events, chosen, isUndo = false) => {
  const sorted = [...events].sort((a, b) => a.onset - b.onset);
  const clash = sorted.slice(1).find((event, i) => overlaps(sorted[i], event));
  if (clash) throw new Error(`Events must not overlap, but one would at ${(clash.onset / report.sfreq).toFixed(3)} s. Remove the other event first.`);
  const last = sorted[sorted.length - 1];
  if (last && (sorted[0].onset < 0 || last.onset + last.length > report.lengths[view.subject])) {
    throw new Error("An event must lie within the recording.");
  }
  if (!isUndo) editing.before.push(signal.events);
  signal.events = sorted;
  say("problem", "");
  select(chosen);
  const slim = sorted.map(({ atom, onset, length }) => ({ atom, onset, length }));
  const question = { file: report.file, s: view.subject, events: slim };
  // One after the other, so that the last change wins.
  editing.saved = editing.saved.catch(() => null).then(() => ask("correct", question));
  showCorrections((await editing.saved).n_corrections);
});

function without(event) {
  return signal.events.filter((one) => one !== event);
}

function made(onset, like) {
  const length = like?.length ?? report.length;
  return { atom: like?.atom ?? view.atom, onset: Math.round(onset), amplitude: null, length, quality: null, flagged: false };
}

function moved(event, onset) {
  return { ...made(onset, event), atom: event.atom };
}

function stepTo(by) {
  const { events } = signal;
  const at = events.findIndex(({ onset }) => onset === editing.selected);
  const middle = ((signal.from + signal.to) / 2) * report.sfreq;
  const near = events.findIndex(({ onset, length }) => onset + length / 2 >= middle);
  const next = at < 0 ? Math.max(near, 0) : Math.min(Math.max(at + by, 0), events.length - 1);
  if (events.length) select(events[next]);
}

const edits = {
  previous: () => stepTo(-1),
  next: () => stepTo(1),
  flagged: () => {
    const flagged = signal.events.filter((event) => event.flagged);
    const next = flagged.find(({ onset }) => onset > (editing.selected ?? -1)) ?? flagged[0];
    if (next) select(next);
  },
  remove: (event) => event && change(without(event), null),
  insert: (event) => {
    const added = made(event ? event.onset + event.length : ((signal.from + signal.to) / 2) * report.sfreq, event);
    return change([...signal.events, added], added);
  },
  earlier: (event) => event && shift(event, -1),
  later: (event) => event && shift(event, 1),
  relabel: (event) => {
    if (!event) return null;
    const other = { ...moved(event, event.onset), atom: (event.atom + 1) % nAtoms };
    return change([...without(event), other], other);
  },
  undo: () => editing.before.length && change(editing.before.pop(), null, true),
};

function shift(event, by) {
  const there = moved(event, event.onset + by);
  return change([...without(event), there], there);
}

const EDIT_KEYS = { f: "flagged", n: "next", p: "previous", Delete: "remove", Backspace: "remove", a: "insert", "[": "earlier", "]": "later", k: "relabel", u: "undo" };

// The time under a click on the chart.
function timeAt(place, pointer) {
  const { xaxis } = place._fullLayout;
  const left = place.getBoundingClientRect().left + xaxis._offset;
  return xaxis.p2d(pointer.clientX - left) * report.sfreq;
}

function clickAt(at) {
  const event = selectedEvent();
  const mode = element("click").value;
  if (mode === "add") {
    const added = made(at);
    return change([...signal.events, added], added);
  }
  if (mode === "move" && event) {
    const there = moved(event, at);
    return change([...without(event), there], there);
  }
  return select(signal.events.find(({ onset, length }) => onset <= at && at < onset + length) ?? null);
}

function listenToCorrections() {
  for (const button of document.querySelectorAll("[data-edit]")) {
    button.addEventListener("click", () => edits[button.dataset.edit](selectedEvent()));
  }
  element("signal-frame").addEventListener("keydown", (pressed) => {
    if (pressed.target.closest("input, select") || pressed.altKey) return;
    const isUndo = pressed.key === "z" && (pressed.ctrlKey || pressed.metaKey);
    const name = isUndo ? "undo" : EDIT_KEYS[pressed.key];
    if (!name || (!isUndo && (pressed.ctrlKey || pressed.metaKey))) return;
    pressed.preventDefault();
    edits[name](selectedEvent());
  });
  const place = element("signal");
  let down = null;
  place.addEventListener("pointerdown", (pointer) => (down = pointer), true);
  place.addEventListener("click", (pointer) => {
    // A drag zooms; only a click without a way counts.
    if (!down || Math.abs(pointer.clientX - down.clientX) > 3 || pointer.target.closest(".modebar, .legend")) return;
    clickAt(timeAt(place, pointer));
  }, true);
  showEvent();
}

chosePerson = () => {
  Object.assign(editing, { selected: null, before: [] });
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
