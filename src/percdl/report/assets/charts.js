// The style of all charts, in light and dark mode and in print.

// Okabe and Ito, most distinct first; dashes and markers repeat the distinction without colour.
const COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const MARKERS = ["circle", "square", "diamond", "triangle-up", "x", "cross", "triangle-down"];
const FAST = "#D55E00";
const SLOW = "#0072B2";
const NAMED = "#E69F00"; // behind what the sentences name
const FLAGGED = "#B2182B"; // no colour of an atom
const LETTER = 7; // mean width of a letter in pixels
const FOR_TITLE = 0.6; // share of a chart's height that the title of an axis may take

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const paper = window.matchMedia("print");
const touch = window.matchMedia("(any-pointer: coarse)");

function element(id) {
  return document.getElementById(id);
}

// A new element with properties and children.
function build(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function pick(list, index) {
  return list[((index % list.length) + list.length) % list.length];
}

// The recording and its reconstruction differ in lightness, so that everyone can tell them apart.
function theme() {
  return dark.matches && !paper.matches
    ? { text: "#e8e8e8", soft: "#9aa0a6", line: "#3a3f45", shared: "#ffffff", seen: "#767c84", model: "#F0E442", ground: "#1d2024" }
    : { text: "#1c1c1c", soft: "#8a8a8a", line: "#e3e3e3", shared: "#000000", seen: "#8a8a8a", model: "#000000", ground: "#ffffff" };
}

function faded(color, share) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  return `rgba(${r},${g},${b},${share})`;
}

// The plotting library interprets tags in texts, so names of the recordings are escaped.
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function axis(title, options = {}) {
  const { text, line } = theme();
  return {
    title: { text: plain(title), standoff: 8 },
    gridcolor: line,
    linecolor: line,
    zerolinecolor: line,
    tickfont: { color: text },
    automargin: true,
    ticklabeloverflow: "allow", // else every label is measured in every drawing
    ...options,
  };
}

// Charts on the screen are drawn at once, others when they come near, or after a pause (ms). The
// points of far charts are not rendered: thousands cost time in every frame, even out of sight.
const onScreen = new Set();
const waiting = new Map();
const onPaper = new Set();
const PAUSE = 400;
const LEAST_SEEN = 0.2; // share of a chart that makes it one on the screen

function watch(options, hear) {
  return new IntersectionObserver((entries) => {
    for (const { target, isIntersecting, intersectionRatio } of entries) {
      const isIn = isIntersecting && intersectionRatio >= (options.threshold ?? 0);
      hear(target, isIn);
      if (isIn && waiting.has(target)) plot(target, ...waiting.get(target));
    }
  }, options);
}

const watchers = [
  watch({ threshold: LEAST_SEEN }, (place, isSeen) => onScreen[isSeen ? "add" : "delete"](place)),
  watch({ rootMargin: "25%" }, (place, isNear) => place.classList.toggle("far", !isNear)),
];

function draw(id, ...content) {
  const place = element(id);
  if (onScreen.has(place) || !place.data || paper.matches) return plot(place, ...content);
  waiting.set(place, content);
  place.dataset.stale = "yes";
  clearTimeout(waiting.timer);
  waiting.timer = setTimeout(drawNext, PAUSE);
}

// One at a time, so that the page can answer in between.
function drawNext() {
  const [next] = waiting;
  if (!next) return;
  plot(next[0], ...next[1]);
  waiting.timer = setTimeout(drawNext);
}

function plot(place, traces, layout = {}, config = {}) {
  waiting.delete(place);
  delete place.dataset.stale;
  for (const watcher of watchers) watcher.observe(place);
  const { text, ground } = theme();
  const base = {
    // The tool bar stands in the margin on the right, beside the curves and the legend.
    margin: { l: 58, r: touch.matches ? 14 : 34, t: 12, b: 42 },
    modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)" },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: text },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, bgcolor: "rgba(0,0,0,0)" },
    hovermode: "closest",
    hoverlabel: { bgcolor: ground, font: { color: text } },
    dragmode: touch.matches ? false : "zoom",
  };
  // The library notices a new size of the window, but not of the sheet, which would cut the charts.
  const isNewSize = paper.matches || onPaper.has(place);
  onPaper[paper.matches ? "add" : "delete"](place);
  const size = isNewSize && place.clientWidth ? { width: place.clientWidth, height: place.clientHeight } : {};
  const height = layout.height ?? size.height ?? place._fullLayout?.height ?? place.clientHeight;
  const drawn = Plotly.react(place, traces, { ...base, ...size, ...broken(layout, height) }, {
    displaylogo: false,
    responsive: true,
    displayModeBar: touch.matches ? false : "hover",
    // An explicit list, because other buttons lead out of the page.
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    ...config,
  });
  for (const side of Object.keys(size)) if (!(side in layout)) delete place.layout[side]; // else it stays
  return drawn;
}

// Long titles of vertical axes in two lines, where a chart is not tall enough for one.
function broken(layout, height) {
  const fit = ([name, own]) => {
    const [low, high] = own?.domain ?? [0, 1];
    const text = (name.startsWith("yaxis") && own.title.text) || "";
    const seen = text.replace(/&\w+;/g, "-"); // `plain` escapes letters
    if (LETTER * seen.length <= FOR_TITLE * height * (high - low)) return [name, own];
    const off = (i) => Math.abs(i - text.length / 2);
    const spaces = Array.from(text.matchAll(/ /g), ({ index }) => index);
    const at = spaces.reduce((best, i) => (off(i) < off(best) ? i : best), spaces[0] ?? text.length);
    const lines = `${text.slice(0, at)}<br>${text.slice(at + 1)}`;
    return [name, { ...own, title: { ...own.title, text: at < text.length ? lines : text } }];
  };
  return Object.fromEntries(Object.entries(layout).map(fit));
}

// A band between two curves: an invisible line, and one filled down to it.
function band(x, low, high, name, color, share = 0.25, options = {}) {
  const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", ...options };
  return [
    { ...edge, y: low, showlegend: false },
    { ...edge, y: high, name: plain(name), fill: "tonexty", fillcolor: faded(color, share) },
  ];
}

// A rectangle over some time, by default as high as the chart.
function bar(from, to, look, low = 0, high = 1) {
  return { type: "rect", xref: "x", yref: "paper", x0: from, x1: to, y0: low, y1: high, ...look };
}

function line(x, y, name, color, options = {}) {
  const { width = 2, dash = "solid", ...rest } = options;
  return { x, y, name: plain(name), mode: "lines", line: { color, width, dash }, ...rest };
}

function scaled(curve, factor) {
  return Float64Array.from(curve, (value) => value * factor);
}
