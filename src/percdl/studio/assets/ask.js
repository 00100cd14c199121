// Questions to the server of the studio, and commands that it runs.

async function ask(name, question = {}) {
  const response = await fetch(`/api/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.problem);
  return answer;
}

function say(id, text) {
  const place = element(id);
  place.textContent = text;
  place.hidden = !text;
}

// The command that runs, in the box "Progress".
const running = { job: null, isStopping: false };

// Runs a command; returns the message "done" of the command, or null if it failed or was stopped.
async function runCommand(command, options, hear) {
  const { job } = await ask("run", { command, options });
  return follow(job, hear);
}

// Shows a command that runs until it ends; `hear` takes its messages, several at a time.
async function follow(job, hear = () => {}) {
  say("problem", "");
  say("said", "");
  say("stage", "Starting; programs of a new shape are compiled first");
  Object.assign(running, { job, isStopping: false });
  element("progress").hidden = false;
  element("stop").disabled = false;
  element("close-progress").disabled = true;
  element("bar").removeAttribute("value");
  let known = 0;
  let rounds = 0;
  let done = null;
  for (;;) {
    const { line, messages, known: now, code } = await ask("news", { job, known });
    known = now;
    element("line").textContent = line;
    hear(messages);
    for (const message of messages) {
      if (message.event === "start" && message.rounds) rounds = message.rounds;
      if (message.event === "round") showRound(message, rounds);
      if (message.event === "warning") addWarning(message.message);
      if (message.event === "done") done = message;
      const isError = message.event === "error" && !running.isStopping;
      if (isError || message.event === "interrupted") say("problem", message.message);
    }
    if (code === null) continue;
    element("stop").disabled = true;
    element("close-progress").disabled = false;
    element("bar").value = done ? 1 : 0;
    say("stage", done ? "Done." : running.isStopping || code === 130 ? "Stopped." : "Failed.");
    return done;
  }
}

function showRound({ phase, round, objective, seconds_left: left }, rounds) {
  const bar = element("bar");
  bar.max = rounds;
  bar.value = Math.min(rounds, (bar.hasAttribute("value") ? bar.value : 0) + 1);
  say("stage", `Round ${round} (${phase}), objective ${objective.toPrecision(5)}, about ${Math.ceil(left)} s left`);
}

function addWarning(text) {
  const list = element("said");
  list.hidden = false;
  list.append(build("p", {}, text.replace(/ In Python: .*/s, ""))); // advice that ends a message
}

function stop() {
  element("stop").disabled = true;
  running.isStopping = true;
  say("stage", "Stopping");
  return ask("stop", { job: running.job });
}

function listenToProgress() {
  element("stop").addEventListener("click", guarded(stop));
  for (const button of document.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => (element(button.dataset.close).hidden = true));
  }
  // The next click is about something else.
  const forget = ({ target }) => target.closest("#messages") || say("problem", "");
  document.addEventListener("click", forget, true);
}

// Reports a failure of a question where the reader looks.
function guarded(action) {
  return async (...given) => {
    try {
      return await action(...given);
    } catch (error) {
      say("problem", error.message);
      return null;
    }
  };
}
