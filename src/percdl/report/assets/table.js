// The table of people: search, filter, sort, select. Texts are set as text, never as markup.

const rows = []; // of all people, those that are not shown too
let shown = []; // the people that match, in the order of the table
const sorting = { column: 0, down: false };
const table = element("people");
const frame = table.parentElement;
const search = element("search");
const filter = element("filter");
const [body] = table.tBodies;
// Of more rows than this, only those near the view are part of the page.
const MOST_ROWS = 200;

function cellText(column, value) {
  if (value === null || value === undefined) return "–";
  if (column.kind !== "number") return String(value);
  const digits = { minimumFractionDigits: column.digits, maximumFractionDigits: column.digits };
  return value.toLocaleString("en", { ...digits, useGrouping: false });
}

function buildTable() {
  const [head] = table.tHead.rows;
  report.columns.forEach((column, index) => {
    const button = build("button", { type: "button" }, column.label);
    button.addEventListener("click", () => sortBy(index));
    const help = why(column.label, column.title);
    head.append(build("th", { scope: "col", className: column.kind }, button, help));
  });
  for (let s = 0; s < report.n_subjects; s++) rows.push(buildRow(s));
  table.createTFoot().append(buildRuler());
  for (const name of report.groups.names) filter.append(new Option(name, name));
  filter.parentElement.hidden = !report.groups.names.length;
  search.addEventListener("input", showRows);
  filter.addEventListener("change", showRows);
  body.addEventListener("keydown", walkRows);
  frame.addEventListener("scroll", attachRows, { passive: true });
  window.addEventListener("resize", attachRows);
  paper.addEventListener("change", attachRows);
  showRows();
}

function buildRow(s) {
  const cells = report.columns.map((column, index) =>
    build(index ? "td" : "th", { className: column.kind }, cellText(column, column.values[s])),
  );
  const row = build("tr", {}, ...cells);
  markRow(row, false);
  row.dataset.subject = s;
  cells[0].scope = "row";
  if (report.suspects[s]) {
    cells[0].classList.add("suspect");
    cells[0].title = report.suspects[s];
  }
  row.addEventListener("click", () => choose(s));
  return row;
}

// A row that is not seen: the longest text of each column, so that columns keep their widths.
function buildRuler() {
  const cells = report.columns.map((column, index) => {
    const texts = rows.map((row) => row.cells[index].textContent);
    const longest = texts.reduce((a, b) => (b.length > a.length ? b : a), "");
    return build("td", { className: column.kind }, longest);
  });
  const ruler = build("tr", {}, ...cells);
  if (report.suspects.some(Boolean)) ruler.cells[0].classList.add("suspect");
  return ruler;
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
  const order = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
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
  shown = [...rows.keys()].filter(wanted).sort((a, b) => compare(values[a], values[b]));
  body.replaceChildren();
  attachRows();
  document.querySelectorAll("#people thead th").forEach((cell, index) => {
    if (index !== sorting.column) cell.removeAttribute("aria-sort");
    else cell.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
  });
  const all = `${rows.length} recording${rows.length === 1 ? "" : "s"}`;
  element("shown").textContent = shown.length === rows.length ? all : `${shown.length} of ${all}`;
  element("none").hidden = shown.length > 0;
}

// The height of a row and of the head.
function measureTable() {
  return [body.rows[0]?.getBoundingClientRect().height ?? 0, table.tHead.offsetHeight];
}

// Makes rows part of the page: all, or those on four screens around the view.
function attachRows() {
  let [first, last, height] = [0, shown.length, 0];
  if (shown.length > MOST_ROWS && !paper.matches) {
    if (!body.rows.length) body.append(rows[shown[0]]);
    [height] = measureTable();
    const screen = Math.ceil(window.innerHeight / height); // the frame is never higher
    first = Math.max(0, Math.floor(frame.scrollTop / height / screen - 1) * screen);
    last = Math.min(shown.length, first + 4 * screen);
  }
  if (body.rows.length === last - first && body.rows[0] === rows[shown[first]]) return;
  const focused = body.contains(document.activeElement) ? document.activeElement : null;
  body.replaceChildren(...shown.slice(first, last).map((s) => rows[s]));
  shown.slice(first, last).forEach((s, i) => rows[s].setAttribute("aria-rowindex", first + i + 2));
  table.setAttribute("aria-rowcount", shown.length + 1);
  table.style.margin = `${first * height}px 0 ${(shown.length - last) * height}px`;
  if (focused?.isConnected) focused.focus({ preventScroll: true });
  markChosen();
}

// Scrolls the table, never the page, until a row is in view.
function reveal(at) {
  const [height, head] = measureTable();
  const bottom = head + (at + 1) * height - frame.clientHeight;
  frame.scrollTop = Math.max(bottom, Math.min(frame.scrollTop, at * height));
  attachRows();
}

// The row that the tab key reaches: that of the selected person, or the first. There may be
// thousands, so none is searched for.
let reachable = null;

function markChosen() {
  if (reachable) markRow(reachable, false);
  const row = rows[view.subject];
  reachable = row.isConnected ? row : body.rows[0];
  if (reachable) markRow(reachable, true);
}

function markRow(row, isReachable) {
  row.setAttribute("aria-selected", isReachable && row === rows[view.subject]);
  row.tabIndex = isReachable ? 0 : -1;
}

function walkRows(event) {
  const row = event.target.closest("tr");
  if (!row) return;
  const at = shown.indexOf(Number(row.dataset.subject));
  const last = shown.length - 1;
  const goal = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last, Enter: at, " ": at }[event.key];
  if (goal === undefined) return;
  event.preventDefault();
  const next = Math.min(Math.max(goal, 0), last);
  choose(shown[next]);
  reveal(next);
  rows[shown[next]].focus();
}

// Select the next or previous person in the order of the table.
function step(by) {
  const n = shown.length;
  if (!n) return;
  const at = shown.indexOf(person.wanted);
  const next = at < 0 ? 0 : (at + by + n) % n;
  choose(shown[next]);
  reveal(next);
}
