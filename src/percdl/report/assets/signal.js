// The recording of the selected person: whole at first, every sample when zoomed in.

// More points than this in view are drawn as the ranges of this number of bins.
const MOST_POINTS = 4000;
const N_BINS = 1000;
// Height of one channel in pixels, alone or stacked.
const HEIGHT = 300;
const ROW_HEIGHT = 90;
// More cycles than this are not shaded, and neighbours share one of this many marks, each of which
// takes a third of a millisecond.
const MOST_CYCLES = 100;
const MOST_MARKS = 40;

// `seen` and `made` are pieces of the recording and of its reconstruction. A piece begins at sample
// `start` and holds every sample (run 1), or the extremes of each run of samples, for all channels.
const signal = { seen: null, made: null, events: [], duration: 0, from: 0, to: 0 };

function setSignal(s, { seen, made, events, personal }) {
  signal.seen = seen;
  signal.events = events;
  signal.made = made ?? { start: 0, run: 1, curves: rebuild(report.lengths[s], events, personal) };
  signal.duration = report.lengths[s] / report.sfreq;
  signal.from = 0;
  signal.to = signal.duration;
  countFlagged();
}

function countFlagged() {
  const n = signal.events.filter(({ flagged }) => flagged).length;
  const button = document.querySelector("[data-move=flagged]");
  button.hidden = !n;
  button.textContent = `Next of ${n} flagged`;
}

// sum_k z_k * phi_sk, for each channel.
function rebuild(nTimes, events, personal) {
  return report.channels.map((_, p) => {
    const total = new Float64Array(nTimes);
    for (const { atom, onset, amplitude, length } of events) {
      const curve = dilate(personal[atom * nChannels + p], length);
      for (let i = 0; i < curve.length && onset + i < nTimes; i++) total[onset + i] += amplitude * curve[i];
    }
    return total;
  });
}

// A curve read at another number of samples, as `read_dilated` does in Python.
function dilate(curve, length) {
  if (length === curve.length) return curve;
  const step = (curve.length - 1) / (length - 1);
  const width = Math.max(1, step);
  return Float64Array.from({ length }, (_, i) => {
    let total = 0;
    let weights = 0;
    for (let j = Math.max(0, Math.ceil(i * step - width)); j <= i * step + width && j < curve.length; j++) {
      const weight = 1 - Math.abs(i * step - j) / width;
      total += weight * curve[j];
      weights += weight;
    }
    return total / weights;
  });
}

// The part of a piece in view, of one channel.
function visible({ start, run, curves }, channel) {
  const curve = curves[channel];
  const each = run === 1 ? 1 : run / 2;
  const first = Math.max(0, Math.floor((signal.from * report.sfreq - start) / each) - 2);
  const last = Math.min(curve.length, Math.ceil((signal.to * report.sfreq - start) / each) + 3);
  const x = [];
  const y = [];
  const size = last - first > MOST_POINTS ? Math.ceil((last - first) / N_BINS) : 1;
  for (let i = first; i < last; i += size) {
    if (size === 1) {
      x.push((start + i * each) / report.sfreq);
      y.push(curve[i]);
      continue;
    }
    let low = Infinity;
    let high = -Infinity;
    for (let j = i; j < Math.min(i + size, last); j++) {
      if (curve[j] < low) low = curve[j];
      if (curve[j] > high) high = curve[j];
    }
    const at = (start + i * each) / report.sfreq;
    x.push(at, at);
    y.push(low === Infinity ? NaN : low, high === -Infinity ? NaN : high);
  }
  return { x, y };
}

function shownChannels() {
  const all = element("all-channels").checked;
  return all ? report.channels.map((_, p) => p) : [view.channel];
}

function drawSignal() {
  const channels = shownChannels();
  const inside = signal.events.filter(
    ({ onset, length }) => (onset + length) / report.sfreq > signal.from && onset / report.sfreq < signal.to,
  );
  const layout = {
    xaxis: axis("time (s)", { range: [signal.from, signal.to], anchor: `y${channels.length > 1 ? channels.length : ""}` }),
    shapes: [...(inside.length <= MOST_CYCLES ? inside.map(shade) : []), ...addShapes()],
    height: channels.length > 1 ? 60 + ROW_HEIGHT * channels.length : HEIGHT,
  };
  const traces = [];
  channels.forEach((p, i) => {
    const name = i ? `y${i + 1}` : "y";
    const height = 1 / channels.length;
    layout[i ? `yaxis${i + 1}` : "yaxis"] = axis(signalLabel(p), {
      domain: [1 - (i + 1) * height, 1 - i * height - (channels.length > 1 ? 0.2 * height : 0)],
      fixedrange: true,
    });
    const once = { yaxis: name, showlegend: i === 0 };
    const seen = visible(signal.seen, p);
    const made = visible(signal.made, p);
    traces.push(line(seen.x, seen.y, "recording", theme().seen, { width: 3, ...once, hoverinfo: "x+y" }));
    traces.push(line(made.x, made.y, "reconstruction", theme().model, { width: 1.5, ...once, hoverinfo: "skip" }));
  });
  traces.push(...onsetMarks(inside, channels), ...addTraces(channels));
  // Double clicks are handled here: the library would return to the first range.
  draw("signal", traces, layout, { doubleClick: false });
  const [from, to, whole] = [signal.from, signal.to, signal.duration].map((time) => time.toFixed(1));
  const many = inside.length > MOST_CYCLES ? `, ${inside.length} cycles; zoom in to see each` : "";
  element("range").textContent = `${from} to ${to} s of ${whole} s${many}`;
}

// One event of each bin, if there are many.
function thinned(events) {
  if (events.length <= MOST_CYCLES) return events;
  const width = ((signal.to - signal.from) * report.sfreq) / MOST_MARKS;
  const bin = ({ onset }) => Math.floor(onset / width);
  return events.filter((event, i) => !i || bin(event) !== bin(events[i - 1]));
}

function shade({ atom, onset, length, flagged }) {
  const color = flagged ? FLAGGED : pick(COLORS, atom);
  return bar(onset / report.sfreq, (onset + length) / report.sfreq, {
    layer: "below",
    fillcolor: faded(color, flagged ? 0.3 : 0.13),
    line: { width: 1, color: faded(color, flagged ? 1 : 0.5), dash: flagged ? "dash" : "solid" },
  });
}

// A mark where each cycle begins, on the floor of the first channel shown.
function onsetMarks(events, channels) {
  const floor = signal.seen.curves[channels[0]].reduce((least, value) => (value < least ? value : least), Infinity);
  const marks = (own, name, color, symbol) => {
    const shown = thinned(own);
    return {
      x: shown.map(({ onset }) => onset / report.sfreq),
      y: shown.map(() => floor),
      text: shown.map(describeCycle),
      name,
      mode: "markers",
      marker: { color, symbol, size: 8 },
      hovertemplate: "%{x:.2f} s, %{text}<extra></extra>",
    };
  };
  const usual = events.filter(({ flagged }) => !flagged);
  const symbols = ["triangle-up", "diamond", "square", "circle"];
  const traces = Array.from({ length: nAtoms }, (_, k) => {
    const name = nAtoms > 1 ? `start of ${plain(report.atoms[k])}` : "start of a cycle";
    return marks(usual.filter(({ atom }) => atom === k), name, pick(COLORS, k), pick(symbols, k));
  });
  traces.push(marks(events.filter(({ flagged }) => flagged), "flagged cycle", FLAGGED, "x"));
  return traces.filter(({ x }) => x.length);
}

function describeCycle({ amplitude, quality }) {
  if (amplitude === null) return "added by hand";
  const judged = quality === null ? "no quality" : `quality ${quality.toPrecision(2)}`;
  return `amplitude ${amplitude.toPrecision(4)}, ${judged}`;
}

// The next flagged cycle after the middle of the view, or the first.
function lookAtFlagged() {
  const starts = signal.events.filter(({ flagged }) => flagged).map(({ onset }) => onset / report.sfreq);
  const cycle = report.length / report.sfreq;
  const next = starts.find((at) => at + cycle / 2 > (signal.from + signal.to) / 2 + 0.01 * cycle) ?? starts[0];
  look(next - 2 * cycle, next + 3 * cycle);
}

function look(from, to) {
  const least = Math.min(signal.duration, 10 / report.sfreq);
  const width = Math.min(Math.max(to - from, least), signal.duration);
  signal.from = Math.min(Math.max(from, 0), signal.duration - width);
  signal.to = signal.from + width;
  drawSignal();
  refine();
}

const moves = {
  in: () => zoom(0.5),
  out: () => zoom(2),
  left: () => move(-0.5),
  right: () => move(0.5),
  whole: () => look(0, signal.duration),
  flagged: lookAtFlagged,
};

// By a share of the view.
function move(share) {
  const by = share * (signal.to - signal.from);
  look(signal.from + by, signal.to + by);
}

function zoom(factor) {
  const middle = (signal.from + signal.to) / 2;
  const half = ((signal.to - signal.from) / 2) * factor;
  look(middle - half, middle + half);
}

const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "whole" };

function listenToSignal() {
  const place = element("signal");
  drawSignal();
  place.on("plotly_relayout", (change) => {
    if ("xaxis.range[0]" in change) look(change["xaxis.range[0]"], change["xaxis.range[1]"]);
  });
  place.on("plotly_doubleclick", moves.whole);
  for (const button of document.querySelectorAll("[data-move]")) {
    button.addEventListener("click", () => moves[button.dataset.move]());
  }
  element("signal-frame").addEventListener("keydown", (event) => {
    if (event.target.closest("button, input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = KEYS[event.key];
    if (!move || (event.shiftKey && event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    moves[move]();
  });
  const all = element("all-channels");
  all.parentElement.hidden = nChannels < 2;
  all.addEventListener("change", drawSignal);
}
