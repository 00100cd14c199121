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
  const traces = [
    ...band(
      times,
      scaled(inView(shared.crowd[0]), size),
      scaled(inView(shared.crowd[1]), size),
      "95% of the personal atoms",
      theme().soft,
      0.25,
    ),
  ];
  if (shared.band) {
    const [low, high] = shared.band.map((end) => scaled(inView(end), size));
    traces.push(...band(times, low, high, "95% confidence band", color, 0.35));
  }
  const common = scaled(inView(shared.common), size);
  const visits = report.visits?.[view.atom] ?? Array.from(times, () => 1);
  const well = common.map((value, i) => (visits[i] < report.well_visited ? NaN : value));
  const hover = { text: visits.map((share) => `${Math.round(100 * share)}% of the people pass here`), hovertemplate: "%{y:.3g}, %{text}" };
  traces.push(line(times, common, "common atom, few people pass", faded(color, 0.45), { showlegend: well.some(Number.isNaN), ...hover }));
  traces.push(line(times, well, "common atom", color, { width: 3, hoverinfo: "skip" }));
  traces.push(...landmarks(common, ({ time }) => time));
  draw("overview-atom", traces, {
    xaxis: axis("time (s)"),
    yaxis: axis(signalLabel(view.channel)),
    hovermode: "x", // a click anywhere picks a time
    shapes: picked.time === null ? [] : [pickedLine()],
  });
}

// The landmarks of the atom in view, on a curve of it; `at` gives the time of each.
function landmarks(curve, at) {
  const own = (report.marks ?? []).filter(
    ({ atom, channel }) => atom === view.atom && (channel === null || channel === report.channels[view.channel]),
  );
  return own.filter((mark) => at(mark) !== null).map((mark, index) => ({
    x: [at(mark)],
    y: [readAt(curve, at(mark) * report.sfreq)],
    name: plain(mark.name),
    mode: "markers",
    marker: { color: pick(COLORS, index + 2), symbol: pick(MARKERS, index), size: 10, line: { width: 1, color: theme().ground } },
    hovertemplate: `%{x:.3f} s<extra>${plain(mark.name)}</extra>`,
  }));
}

// The value of a curve between its samples.
function readAt(curve, position) {
  const i = Math.min(Math.floor(position), curve.length - 2);
  return curve[i] + (position - i) * (curve[i + 1] - curve[i]);
}

// A landmark to be: its time on the common atom, and the command that places it.
const picked = { time: null };

function pickedLine() {
  const edge = { color: theme().text, width: 1, dash: "dot" };
  return { type: "line", xref: "x", yref: "paper", x0: picked.time, x1: picked.time, y0: 0, y1: 1, line: edge };
}

function quoted(text) {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

function showPicked() {
  const name = document.getElementById("mark-name").value || "landmark";
  const channel = report.n_warps > 1 ? ` --channel ${quoted(report.channels[view.channel])}` : "";
  const atom = nAtoms > 1 ? ` --atom ${view.atom}` : "";
  document.getElementById("mark-command").textContent =
    `percdl mark MODEL.percdl --name ${quoted(name)} --at ${picked.time.toFixed(4)}${atom}${channel}`;
  document.getElementById("picker").hidden = false;
  drawOverview();
}

function listenToOverview() {
  if (!report.marks) return;
  document.getElementById("overview-atom").on("plotly_click", ({ points }) => {
    picked.time = points[0].x;
    document.getElementById("mark-time").value = picked.time.toFixed(4);
    showPicked();
  });
  document.getElementById("mark-name").addEventListener("input", showPicked);
  document.getElementById("mark-time").addEventListener("input", (event) => {
    const time = event.target.valueAsNumber;
    if (!(time >= 0 && time <= report.length / report.sfreq)) return;
    picked.time = time;
    showPicked();
  });
  document.getElementById("mark-copy").addEventListener("click", async () => {
    const command = document.getElementById("mark-command");
    getSelection().selectAllChildren(command); // to copy by hand, where the browser forbids it
    await navigator.clipboard?.writeText(command.textContent).catch(() => {});
  });
}

function drawHistory() {
  const { phase, objective } = report.history;
  const traces = [...new Set(phase)].map((name, index) => {
    const at = phase.flatMap((of, i) => (of === name ? [i] : []));
    return {
      ...line(at, at.map((i) => objective[i]), name, pick(COLORS, index)),
      mode: "lines+markers",
      marker: { symbol: pick(MARKERS, index) },
    };
  });
  draw("history", traces, {
    xaxis: axis("half-step"),
    yaxis: axis("objective", { type: "log" }),
  });
}
