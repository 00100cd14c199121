// The table of people: search, filter, sort, select. Texts are set as text, never as markup.

const rows = [];
const sorting = { column: 0, down: false };
const search = document.getElementById("search");
const filter = document.getElementById("filter");
const body = document.querySelector("#people tbody");

function cellText(column, value) {
  if (value === null || value === undefined) return "–";
  if (column.kind !== "number") return String(value);
  return value.toLocaleString("en", {
    minimumFractionDigits: column.digits,
    maximumFractionDigits: column.digits,
    useGrouping: false,
  });
}

function buildTable() {
  const head = document.querySelector("#people thead tr");
  report.columns.forEach((column, index) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.className = column.kind;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = column.label;
    button.addEventListener("click", () => sortBy(index));
    cell.append(button, why(column.label, column.title));
    head.append(cell);
  });
  for (let s = 0; s < report.n_subjects; s++) rows.push(buildRow(s));
  for (const name of report.groups.names) filter.append(new Option(name, name));
  filter.parentElement.hidden = !report.groups.names.length;
  search.addEventListener("input", showRows);
  filter.addEventListener("change", showRows);
  body.addEventListener("keydown", walkRows);
  showRows();
}

function buildRow(s) {
  const row = document.createElement("tr");
  markRow(row, false);
  row.dataset.subject = s;
  report.columns.forEach((column, index) => {
    const cell = document.createElement(index ? "td" : "th");
    if (!index) cell.scope = "row";
    cell.className = column.kind;
    cell.textContent = cellText(column, column.values[s]);
    if (!index && report.suspects[s]) {
      cell.classList.add("suspect");
      cell.title = report.suspects[s];
    }
    row.append(cell);
  });
  row.addEventListener("click", () => choose(s));
  return row;
}

function sortBy(index) {
  // Numbers start with the largest; a second click reverses the order.
  const first = report.columns[index].kind === "number";
  sorting.down = sorting.column === index ? !sorting.down : first;
  sorting.column = index;
  showRows();
}

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order =
    typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true });
  return sorting.down ? -order : order;
}

function wanted(s) {
  if (filter.value && report.groups.names[report.groups.of[s]] !== filter.value) return false;
  const words = search.value.trim().toLowerCase();
  // Cell by cell, so that "67" next to "35" does not match 73.
  return !words || [...rows[s].cells].some((cell) => cell.textContent.toLowerCase().includes(words));
}

function showRows() {
  const values = report.columns[sorting.column].values;
  const shown = rows
    .map((_, s) => s)
    .filter(wanted)
    .sort((a, b) => compare(values[a], values[b]) || a - b);
  body.replaceChildren(...shown.map((s) => rows[s]));
  document.querySelectorAll("#people thead th").forEach((cell, index) => {
    if (index !== sorting.column) cell.removeAttribute("aria-sort");
    else cell.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
  });
  const all = `${rows.length} recording${rows.length === 1 ? "" : "s"}`;
  document.getElementById("shown").textContent = shown.length === rows.length ? all : `${shown.length} of ${all}`;
  document.getElementById("none").hidden = shown.length > 0;
  markChosen();
}

// Touches few rows: there may be thousands.
function markChosen() {
  for (const row of body.querySelectorAll("[aria-selected=true], [tabindex='0']")) markRow(row, false);
  const row = rows[view.subject];
  if (row.isConnected) markRow(row, true);
  else if (body.rows.length) body.rows[0].tabIndex = 0; // one row is always reachable with the tab key
}

function markRow(row, chosen) {
  row.setAttribute("aria-selected", chosen);
  row.tabIndex = chosen ? 0 : -1;
}

function walkRows(event) {
  const row = event.target.closest("tr");
  if (!row) return;
  const all = [...body.rows];
  const at = all.indexOf(row);
  const goal = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1, Enter: at, " ": at }[event.key];
  if (goal === undefined) return;
  event.preventDefault();
  const next = all[Math.min(Math.max(goal, 0), all.length - 1)];
  choose(Number(next.dataset.subject));
  next.focus();
}

// Select the next or previous person in the order of the table.
function step(by) {
  const n = body.rows.length;
  if (!n) return;
  const row = rows[view.subject];
  const next = body.rows[row.isConnected ? (row.sectionRowIndex + by + n) % n : 0];
  choose(Number(next.dataset.subject));
  next.scrollIntoView({ block: "nearest" });
}
