// Two people, two visits, a person and a group, or two groups.

const compareSides = guarded(async () => {
  const asked = { first: element("first").value, second: element("second").value, atom: view.atom, channel: view.channel };
  const turn = (compareSides.turn = Symbol("turn"));
  const found = await ask("compare", { file: report.file, ...asked });
  if (turn !== compareSides.turn) return;
  element("compare-words").replaceChildren(...found.words.map((text) => build("li", {}, text)));
  drawSides("compare-atoms", found.curves, "atoms", axis(signalLabel(view.channel)));
  if (report.n_warps) drawSides("compare-speeds", found.curves, "speeds", speedAxis(found.curves));
  const cell = (tag) => ([text, about]) => build(tag, {}, text, why(text, about));
  const row = (tag) => (cells) => build("tr", {}, ...cells.map(cell(tag)));
  element("compare-numbers").replaceChildren(row("th")(found.header), ...found.rows.map(row("td")));
});

// As far as the curves and their bands reach, within limits: the ends of a cycle can be extreme.
function speedAxis(sides) {
  const reached = sides.flatMap(({ speeds }) => (speeds ? Object.values(speeds).flat() : []));
  const [low, high] = [Math.min(0.8, ...reached), Math.max(1.25, ...reached)];
  const range = [Math.max(low, SPEEDS[0]), Math.min(high, SPEEDS[1])].map(Math.log10);
  const tickvals = high > 4 * low ? [0.25, 0.5, 1, 2, 4] : [0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3];
  return axis("local speed (ratio)", { type: "log", range, tickvals });
}

// Bands lie under both curves; they are shown and hidden with their curve.
function drawSides(id, sides, part, yaxis) {
  const drawn = sides.flatMap((side, index) => {
    if (!side[part]) return [];
    const legendgroup = `side${index}`;
    const { mean, low, high } = side[part];
    const color = COLORS[index];
    const around = low ? band(times(), low, high, side.name, color, 0.3, { legendgroup, showlegend: false }) : [];
    return [...around, line(times(), mean, side.name, color, { width: 3, dash: DASHES[index], legendgroup })];
  });
  const [bands, curves] = [true, false].map((isBand) => drawn.filter(({ showlegend }) => (showlegend === false) === isBand));
  const clock = part === "speeds" ? "time of the population (s)" : "own time (s)";
  draw(id, [...bands, ...curves], { xaxis: axis(clock), yaxis });
}

// Another reference changes most of the page, which is read again.
const saveReference = guarded(async () => {
  await ask("refer", { file: report.file, reference: element("reference").value });
  location.reload();
});

function listenToComparison() {
  element("reference")?.addEventListener("change", saveReference);
  const second = report.groups.names.length ? `group:${report.groups.names[0]}` : "everyone";
  for (const [id, chosen] of [["first", `recording:${subjectId(view.subject)}`], ["second", second]]) {
    element(id).replaceChildren(...report.sides.map(([text, value]) => new Option(text, value)));
    element(id).value = chosen;
  }
  for (const id of ["first", "second", "atom", "channel"]) element(id).addEventListener("change", compareSides);
  for (const change of [dark, paper]) change.addEventListener("change", compareSides);
  compareSides();
}
