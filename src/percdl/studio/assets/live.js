// A recording while it is being made: its last seconds, events as they are settled, and the rhythm.

const SECONDS = 15; // of the signal in view
const N_RHYTHM = 200; // events in the picture of the rhythm
const REDRAW = 200; // ms between two pictures

const live = { first: 0, samples: [], events: [], pending: [], n: 0, timer: null, on: false };

function hearLive(messages) {
  for (const message of messages) {
    if (message.event === "heard") hearSamples(message);
    if (message.event === "found") live.events.push(message), live.n++;
  }
  live.events = live.events.slice(-N_RHYTHM);
  if (!messages.some(({ event }) => event === "heard")) return;
  say("stage", "Watching");
  live.timer ??= setTimeout(drawLive, REDRAW);
}

// Samples are kept by channel; those that left the view are dropped.
function hearSamples({ first, samples, pending }) {
  live.pending = pending.map((event) => ({ ...event, pending: true }));
  const follows = live.samples.length && first === live.first + live.samples[0].length;
  if (!follows) Object.assign(live, { first, samples: samples.map(() => []) });
  const most = Math.ceil(SECONDS * report.sfreq);
  samples.forEach((own, p) => live.samples[p].push(...own));
  const extra = Math.max(0, live.samples[0].length - most);
  live.samples = live.samples.map((own) => own.slice(extra));
  live.first += extra;
}

function drawLive() {
  clearTimeout(live.timer);
  live.timer = null;
  const { sfreq, channels } = report;
  const times = Float64Array.from(live.samples[0] ?? [], (_, i) => (live.first + i) / sfreq);
  const now = times.at(-1) ?? 0;
  const shown = [...live.events, ...live.pending].filter(({ onset, duration }) => onset + duration > now - SECONDS);
  const kinds = [...new Set([...live.events, ...live.pending].map(({ trial_type: kind }) => kind))].sort();
  const color = ({ flagged, trial_type: kind }) => (flagged ? FLAGGED : pick(COLORS, kinds.indexOf(kind) + 1));
  const curves = live.samples.map((own, p) => line(times, own, channels[p], p ? pick(COLORS, p + 3) : theme().seen, { width: 1.5 }));
  const legend = kinds.map((kind) => ({
    x: [null], y: [null], name: plain(kind), mode: "markers",
    marker: { symbol: "square", size: 12, color: faded(color({ trial_type: kind }), 0.4) },
  }));
  draw(
    "live-signal",
    [...curves, ...legend],
    {
      xaxis: axis("time (s)", { range: [Math.max(0, now - SECONDS), now] }),
      yaxis: axis("signal"),
      showlegend: true,
      shapes: shown.map((event) => ({
        type: "rect", xref: "x", yref: "paper", y0: 0, y1: 1, layer: "below",
        x0: event.onset, x1: event.onset + event.duration,
        fillcolor: faded(color(event), event.pending ? 0.06 : 0.25),
        line: { width: 1, color: color(event), dash: event.pending ? "dot" : event.flagged ? "dash" : "solid" },
      })),
    },
  );
  const rhythm = kinds.map((kind, index) => {
    const own = live.events.filter(({ trial_type: found }) => found === kind);
    const gaps = own.slice(1).map(({ onset }, i) => onset - own[i].onset);
    return {
      x: own.slice(1).map(({ onset }) => onset), y: gaps, name: plain(kind), mode: "lines+markers",
      line: { color: pick(COLORS, index + 1) }, marker: { symbol: pick(MARKERS, index), size: 6 },
    };
  });
  draw("live-rhythm", rhythm, { xaxis: axis("time (s)"), yaxis: axis("time since the one before (s)", { rangemode: "tozero" }), showlegend: true });
  sayLive(now);
}

function sayLive(now) {
  const last = live.events.at(-1);
  const own = live.events.filter(({ trial_type: kind }) => kind === last?.trial_type).slice(-6);
  const gaps = own.slice(1).map(({ onset }, i) => onset - own[i].onset).sort((a, b) => a - b);
  const rate = gaps.length ? `; now ${(60 / gaps[Math.floor(gaps.length / 2)]).toFixed(1)} per minute (${last.trial_type}, the last ${gaps.length + 1})` : "";
  const found = last ? `${live.n} events${rate}; the last was known ${last.lag.toFixed(2)} s after its end` : "no events yet: the parameters of the person are being learned";
  element("live-words").textContent = `${now.toFixed(1)} s recorded, ${found}.`;
}

const watchLive = guarded(async () => {
  Object.assign(live, { first: 0, samples: [], events: [], pending: [], n: 0, on: true });
  const [source, person, learn] = ["source", "person", "learn"].map((id) => element(`live-${id}`).value.trim());
  const stem = source.replace(/^lsl:/, "").replace(/.*\//, "").replace(/\.\w+$/, "");
  const { channels, time, delimiter, decimal, encoding, skip_lines, header } = report.reading;
  const options = { channels, time, delimiter, decimal, encoding, skip_lines, header };
  const out = `${report.results}_${stem}_live.tsv`;
  element("live-start").disabled = true;
  element("live-stop").disabled = false;
  try {
    const done = await runCommand("watch", { model: report.file, data: [source], ...options, person, learn, samples: true, out }, hearLive);
    live.pending = [];
    drawLive();
    if (done) showWritten([out]);
  } finally {
    element("live-start").disabled = false;
    element("live-stop").disabled = true;
  }
});

function listenToLive() {
  element("live-start").addEventListener("click", watchLive);
  element("live-stop").addEventListener("click", guarded(stop));
  for (const change of [dark, paper]) change.addEventListener("change", () => live.on && drawLive());
}
