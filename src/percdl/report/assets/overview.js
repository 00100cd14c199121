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
  traces.push(line(times, scaled(inView(shared.common), size), "common atom", color, { width: 3 }));
  draw("overview-atom", traces, {
    xaxis: axis("time (s)"),
    yaxis: axis(signalLabel(view.channel)),
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
