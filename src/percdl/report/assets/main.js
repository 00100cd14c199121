// Build the page from its content.

function fillChoice(id, names, key) {
  const select = element(id);
  names.forEach((name, index) => select.append(new Option(name, index)));
  select.parentElement.hidden = names.length < 2;
  select.addEventListener("change", () => {
    view[key] = Number(select.value);
    drawAll();
  });
}

function drawPopulation() {
  drawOverview();
  drawHistory();
  drawGroups();
  drawPlane();
}

function drawAll() {
  drawPopulation();
  drawSubject();
}

// Shows the person in the address and goes there, or shows another if there is none.
async function visit(other = null) {
  const wished = asked();
  if (wished >= 0 || other !== null) await choose(wished >= 0 ? wished : other);
  if (wished >= 0) element("who").scrollIntoView();
}

// The person in the address, or -1: most addresses are sections of the page.
function asked() {
  const wish = new URLSearchParams(location.hash.slice(1)).get("subject");
  return report.columns[0].values.indexOf(wish);
}

async function start() {
  fillChoice("atom", report.atoms, "atom");
  fillChoice("channel", report.channels, "channel");
  buildTable();
  await readShared();
  await readGroups();
  drawPopulation();
  await visit(shown[0]);
  listenToOverview();
  listenToSignal();
  listenToSubject();
  listenToGroups();
  listenToStudio();
  window.addEventListener("hashchange", () => visit());
  for (const change of [dark, paper]) change.addEventListener("change", drawAll);
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  const notice = element("broken");
  notice.hidden = false;
  notice.append(` (${error.message})`);
  throw error;
});
