// Groups: shape, timing, deviation from the reference, and all people in one plane.

const comparison = {};

async function readGroups() {
  if (!report.comparison) return;
  comparison.groups = await Promise.all(
    report.comparison.groups.map(async (group) => ({
      name: group.name,
      atoms: await Promise.all(group.atoms.map(unpack)),
      timing: await Promise.all((group.timing ?? []).map(unpack)),
      amplitude: await Promise.all(group.amplitude.map(unpack)),
    })),
  );
}

function groupTraces(part, index) {
  return comparison.groups.flatMap((group) => {
    const g = report.groups.names.indexOf(group.name);
    const [mean, sd] = group[part].map((curves) => curves[index]);
    const color = pick(COLORS, g);
    const [low, high] = [-1, 1].map((sign) => mean.map((value, i) => value + sign * sd[i]));
    return [
      ...band(times(), low, high, group.name, color, 0.15, { legendgroup: `g${g}`, showlegend: false }),
      line(times(), mean, group.name, color, { dash: pick(DASHES, g), legendgroup: `g${g}` }),
    ];
  });
}

// A bar under the curves for each cluster where a group differs from the base.
function clusterBars(part, channel) {
  const found = report.comparison.clusters.filter(
    (c) => c.part === part && c.atom === view.atom && c.channel === channel,
  );
  return found.map((cluster) => {
    const g = report.groups.names.indexOf(cluster.group);
    const look = { fillcolor: pick(COLORS, g), line: { width: 0 } };
    return bar(cluster.from, cluster.to, look, 0.03 * g, 0.03 * g + 0.022);
  });
}

function drawGroups() {
  element("groups").hidden = !report.comparison;
  element("no-groups").hidden = Boolean(report.comparison);
  element("timing-figure").hidden = !report.n_warps;
  if (!report.comparison) return;
  drawPart("atoms", "time (s)", signalLabel(view.channel), nChannels);
  drawPart("amplitude", "time of the population (s)", signalLabel(view.channel), nChannels);
  if (report.n_warps) drawPart("timing", "time of the population (s)", "logarithm of the local speed", report.n_warps);
  drawDeviations();
}

// One of the parts that are compared; it has `n` curves per atom, one per channel or one for all.
function drawPart(part, x, y, n) {
  const channel = n > 1 ? view.channel : 0;
  const layout = { xaxis: axis(x), yaxis: axis(y), shapes: clusterBars(part, channel) };
  draw(`group-${part}`, groupTraces(part, view.atom * n + channel), layout);
}

// The people of a group; -1 for those without a group.
function members(g) {
  return report.groups.of.flatMap((of, s) => (of === g ? [s] : []));
}

// Points of the people of a group; a click on one selects the person.
function points(name, g) {
  const text = members(g).map((s) => plain(subjectId(s)));
  return { name: plain(name), customdata: members(g), text };
}

function drawDeviations() {
  const column = report.columns.find(({ name }) => name === "deviation");
  element("deviation-figure").hidden = !column;
  if (!column) return;
  const traces = report.groups.names.map((name, g) => ({
    ...points(name, g),
    y: members(g).map((s) => column.values[s]),
    hovertext: members(g).map((s) => plain(column.intervals[s] && `(${column.intervals[s]})`)),
    type: "box",
    boxpoints: "all",
    jitter: 0.5,
    pointpos: 0,
    marker: { color: pick(COLORS, g), symbol: pick(MARKERS, g), size: 5, opacity: 0.7 },
    line: { width: 1 },
    fillcolor: faded(pick(COLORS, g), 0.12),
    hovertemplate: "%{text}: %{y:.2f} %{hovertext}<extra></extra>",
  }));
  draw("deviations", traces, {
    xaxis: axis("", { type: "category" }),
    yaxis: axis(`deviation index from ${report.groups.reference}`, { rangemode: "tozero" }),
    showlegend: false,
  });
}

// The parameters of all people in the plane of their first two principal components.
function drawPlane() {
  element("plane-figure").hidden = !report.plane;
  if (!report.plane) return;
  const { x, y, labels } = report.plane;
  const named = report.groups.names.map((name, g) => ({ name, g, color: pick(COLORS, g) }));
  const rest = { name: named.length ? "no group" : "everyone", g: -1, color: theme().soft };
  const all = members(-1).length ? [...named, rest] : named;
  const traces = all.map(({ name, g, color }) => ({
    ...points(name, g),
    x: members(g).map((s) => x[s]),
    y: members(g).map((s) => y[s]),
    mode: "markers",
    marker: { color, symbol: pick(MARKERS, g), size: 7, opacity: 0.8 },
    hovertemplate: "%{text}<extra></extra>",
  }));
  draw("plane", traces, { xaxis: axis(labels[0]), yaxis: axis(labels[1]) });
}

// The points of all people, and that of the selected one. Its style is set by hand: the plotting
// library would draw thousands of points again.
const plane = { points: [], chosen: null };

function findPoints() {
  if (!report.plane) return;
  const drawn = document.querySelectorAll("#plane .point");
  const order = [...report.groups.names.keys(), -1].flatMap(members).filter((s) => report.plane.x[s] !== null);
  order.forEach((s, i) => (plane.points[s] = drawn[i]));
  markPoint();
}

function markPoint() {
  plane.chosen?.classList.remove("chosen");
  plane.chosen = plane.points[view.subject];
  plane.chosen?.classList.add("chosen");
}

// A click on a point selects the person.
function listenToGroups() {
  for (const id of ["deviations", "plane"]) {
    const place = element(id);
    if (!place.on) continue;
    place.on("plotly_click", ({ points }) => {
      const s = points[0].customdata;
      if (s === undefined) return;
      choose(s);
      element("subjects").scrollIntoView();
    });
  }
  element("plane").on?.("plotly_afterplot", findPoints);
  findPoints();
}
