// From the content to the page.

function fillChoice(id, names, key) {
  const select = document.getElementById(id);
  names.forEach((name, index) => select.append(new Option(name, index)));
  select.parentElement.hidden = names.length < 2;
  select.addEventListener("change", () => {
    view[key] = Number(select.value);
    drawAll();
  });
}

function drawAll() {
  drawOverview();
  drawSubject();
  drawGroups();
  drawHistory();
}

// Who the address asks for, if anybody.
function asked() {
  const wish = new URLSearchParams(location.hash.slice(1)).get("subject");
  const found = report.columns[0].values.indexOf(wish);
  return found < 0 ? Number(body.rows[0].dataset.subject) : found;
}

async function start() {
  fillChoice("atom", Array.from({ length: nAtoms }, (_, k) => `atom ${k}`), "atom");
  fillChoice("channel", report.channels, "channel");
  buildTable();
  await readShared();
  await readGroups();
  drawOverview();
  drawHistory();
  drawGroups();
  await choose(asked());
  listenToSignal();
  listenToSubject();
  listenToGroups();
  window.addEventListener("hashchange", () => choose(asked()));
  for (const change of [dark, paper]) change.addEventListener("change", drawAll);
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  const notice = document.getElementById("broken");
  notice.hidden = false;
  notice.append(` (${error.message})`);
  throw error;
});
