// Two people, two visits, a person and a group, or two groups.

const compareSides = guarded(async () => {
  const asked = { first: element("first").value, second: element("second").value, atom: view.atom, channel: view.channel };
  const turn = (compareSides.turn = Symbol("turn"));
  const found = await ask("compare", { file: report.file, ...asked });
  if (turn !== compareSides.turn) return;
  element("compare-words").replaceChildren(...found.words.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  drawSides("compare-atoms", found.curves, "atoms", { yaxis: axis(signalLabel(view.channel)) });
  if (report.n_warps) {
    const layout = { yaxis: axis("local speed (population = 1)", { type: "log", tickvals: [0.06, 0.125, 0.25, 0.5, 1, 2, 4, 8] }) };
    drawSides("compare-speeds", found.curves, "speeds", layout);
  }
  const fill = (tag) => (cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((text) => Object.assign(document.createElement(tag), { textContent: text })));
    return row;
  };
  element("compare-numbers").replaceChildren(fill("th")(found.header), ...found.rows.map(fill("td")));
});

function drawSides(id, sides, part, layout) {
  const traces = sides.flatMap((side, index) => {
    if (!side[part]) return [];
    const { mean, low, high } = side[part];
    const color = COLORS[index];
    const around = low ? band(times, low, high, `${side.name}, one s.d.`, color, 0.2, { showlegend: false }) : [];
    return [...around, line(times, mean, side.name, color, { width: 3, dash: DASHES[index] })];
  });
  draw(id, traces, { xaxis: axis("time (s)"), ...layout });
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
    element(id).addEventListener("change", compareSides);
  }
  compareSides();
}
