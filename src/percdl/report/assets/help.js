// A question mark beside a number: a button that shows its explanation in one bubble.

const bubble = element("bubble");
let explained = null; // the button whose explanation is shown
let shownAt = 0; // where it was on the screen

// Returns a button, or nothing for a number that needs no explanation.
function why(name, text) {
  if (!text) return "";
  const button = build("button", { type: "button", className: "why", textContent: "?" });
  button.dataset.why = text;
  button.setAttribute("aria-label", `What is ${name}?`);
  button.setAttribute("aria-expanded", "false");
  return button;
}

function hideBubble() {
  explained?.setAttribute("aria-expanded", "false");
  explained?.removeAttribute("aria-describedby");
  explained = null;
  bubble.hidden = true;
}

function showBubble(button) {
  hideBubble();
  explained = button;
  bubble.textContent = button.dataset.why;
  bubble.hidden = false;
  button.setAttribute("aria-expanded", "true");
  button.setAttribute("aria-describedby", "bubble");
  const { left, bottom, top } = button.getBoundingClientRect();
  shownAt = top;
  const { width, height } = bubble.getBoundingClientRect();
  const room = document.documentElement.clientWidth - width - 8;
  bubble.style.left = `${Math.max(8, Math.min(left, room))}px`;
  bubble.style.top = `${bottom + height + 8 > window.innerHeight ? top - height - 6 : bottom + 6}px`;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".why");
  if (!button || button === explained) hideBubble();
  else showBubble(button);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideBubble();
});
// Late events of a scroll that came before the button was pressed do not count.
window.addEventListener("scroll", () => {
  if (explained && explained.getBoundingClientRect().top !== shownAt) hideBubble();
}, { capture: true, passive: true });
