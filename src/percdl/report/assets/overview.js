// The common atom with its confidence band and the range of personal atoms.

const shared = {};

async function readShared() {
  shared.common = await unpack(report.common);
  shared.crowd = await Promise.all(report.crowd.map(unpack));
  shared.band = report.band && (await Promise.all(report.band.map(unpack)));
}

// The curve of the atom and channel in view, from a list ordered by atom, then channel.
function inView(curves) {
  return curves[view.atom * nChannels + view.channel];
}

function drawOverview() {
  const size = report.sizes[view.atom];
  const color = COLORS[0];
  const between = (ends, ...look) => band(times(), ...ends.map((end) => scaled(inView(end), size)), ...look);
  const traces = between(shared.crowd, "95% of the personal atoms", theme().soft);
  if (shared.band) traces.push(...between(shared.band, "95% confidence band", color, 0.35));
  const common = scaled(inView(shared.common), size);
  const visits = report.visits?.[view.atom] ?? Array.from(times(), () => 1);
  const well = common.map((value, i) => (visits[i] < report.well_visited ? NaN : value));
  const text = visits.map((share) => `${Math.round(100 * share)}% of the people pass here`);
  const thin = { showlegend: well.some(Number.isNaN), text, hovertemplate: "%{y:.3g}, %{text}<extra></extra>" };
  traces.push(line(times(), common, "common atom, few people pass", faded(color, 0.45), thin));
  traces.push(line(times(), well, "common atom", color, { width: 3, hoverinfo: "skip" }));
  traces.push(...landmarks(common, ({ time }) => time));
  if (report.visits) traces.push(weights(visits));
  draw("overview-atom", traces, {
    xaxis: axis("time (s)", report.visits && { anchor: "y2" }),
    ...weightAxes(),
    hovermode: "x", // a click anywhere picks a time
    shapes: picked.time === null ? [] : [pickedLine()],
  });
}

// Below the common atom: the share of people who pass each of its samples.
function weights(visits) {
  const look = { yaxis: "y2", fill: "tozeroy", fillcolor: faded(COLORS[2], 0.3), hoverinfo: "skip" };
  return line(times(), visits.map((share) => 100 * share), "share of people who pass", COLORS[2], { width: 1, ...look });
}

function weightAxes() {
  const atom = axis(signalLabel(view.channel));
  if (!report.visits) return { yaxis: atom };
  const share = axis("", { domain: [0, 0.13], range: [0, 100], tickvals: [50], ticktext: ["50%"] });
  return { yaxis: { ...atom, domain: [0.2, 1] }, yaxis2: { ...share, anchor: "x" } };
}

// The landmarks of the atom in view, on a curve of it; `at` gives the time of each.
function landmarks(curve, at) {
  const own = (report.marks ?? []).filter(
    ({ atom, channel }) => atom === view.atom && (channel === null || channel === report.channels[view.channel]),
  );
  return own.filter((mark) => at(mark) !== null).map((mark, index) => ({
    x: [at(mark)],
    y: [readAt(curve, at(mark) * clock())],
    name: plain(mark.name),
    mode: "markers",
    marker: { color: pick(COLORS, index + 2), symbol: pick(MARKERS, index), size: 10, line: { width: 1, color: theme().ground } },
    hovertemplate: `%{x:.3f} s<extra>${plain(mark.name)}</extra>`,
  }));
}

// The value of a curve between its samples.
function readAt(curve, position) {
  const i = Math.max(0, Math.min(Math.floor(position), curve.length - 2));
  return curve[i] + (position - i) * (curve[i + 1] - curve[i]);
}

// A landmark to be: its time on the common atom, and the command that places it.
const picked = { time: null };

function pickedLine() {
  return bar(picked.time, picked.time, { type: "line", line: { color: theme().text, width: 1, dash: "dot" } });
}

function quoted(text) {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

// A name that no landmark has yet.
function freeName() {
  const names = report.marks.map(({ name }) => name);
  let [name, n] = ["landmark", 1];
  while (names.includes(name)) name = `landmark ${++n}`;
  return name;
}

function pickTime(time) {
  if (picked.time === null) element("mark-name").value = freeName();
  picked.time = time;
  element("mark-time").value = time.toFixed(4);
  showPicked();
}

function showPicked() {
  const name = element("mark-name").value || "landmark";
  const channel = report.n_warps > 1 ? ` --channel ${quoted(report.channels[view.channel])}` : "";
  const atom = nAtoms > 1 ? ` --atom ${view.atom}` : "";
  const file = report.file ? quoted(report.file) : "MODEL.percdl";
  const moves = report.marks.some((mark) => mark.name === name);
  element("mark-moves").textContent = moves ? `Moves the landmark ${name}. ` : "";
  element("mark-command").textContent =
    `percdl mark ${file} --name ${quoted(name)} --at ${picked.time.toFixed(4)}${atom}${channel}`;
  element("picker").hidden = false;
  drawOverview();
}

function listenToOverview() {
  if (!report.marks) return;
  element("overview-atom").on("plotly_click", ({ points }) => pickTime(points[0].x));
  element("mark-new").addEventListener("click", () => {
    pickTime(report.length / clock() / 2);
    element("mark-time").focus();
  });
  element("mark-name").addEventListener("input", showPicked);
  element("mark-time").addEventListener("input", (event) => {
    const time = event.target.valueAsNumber;
    if (!(time >= 0 && time <= report.length / clock())) return;
    picked.time = time;
    showPicked();
  });
  element("mark-copy").addEventListener("click", async () => {
    const command = element("mark-command");
    getSelection().selectAllChildren(command); // to copy by hand, where the browser forbids it
    await navigator.clipboard?.writeText(command.textContent).catch(() => {});
  });
}

function drawHistory() {
  const { phase, objective } = report.history;
  const traces = [...new Set(phase)].map((name, index) => {
    const at = phase.flatMap((of, i) => (of === name ? [i] : []));
    const look = { mode: "lines+markers", marker: { symbol: pick(MARKERS, index) } };
    return line(at, at.map((i) => objective[i]), name, pick(COLORS, index), look);
  });
  draw("history", traces, { xaxis: axis("half-step"), yaxis: axis("objective", { type: "log" }) });
}
