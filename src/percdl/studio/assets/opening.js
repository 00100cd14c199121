// A model while its recordings are read: the common atoms, and what is being done.

const model = JSON.parse(element("content").textContent);

async function drawAtoms() {
  const curves = await unpack(model.common);
  const n = model.channels.length;
  const traces = curves.map((curve, i) => {
    const times = Float64Array.from(curve, (_, t) => t / model.clocks[Math.floor(i / n)]);
    const atom = curves.length > n ? `atom ${Math.floor(i / n)}, ` : "";
    return line(times, curve, `${atom}${model.channels[i % n]}`, pick(COLORS, i), { dash: pick(DASHES, i) });
  });
  await draw("atoms", traces, { xaxis: axis("time (s)"), yaxis: axis("common atom (unit norm)") });
  document.documentElement.dataset.ready = "yes";
}

async function waitForPeople() {
  for (;;) {
    const { stage, failure, ready } = await ask("open", { file: model.file });
    if (ready) return location.reload();
    say("stage", failure ? "" : `${stage} ...`);
    say("problem", failure);
    element("follow").hidden = failure !== "";
    if (failure) return null;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

drawAtoms().then(guarded(waitForPeople));
