"use strict";
// Everything can be read without this: it hides chunkers that are not wanted, and shows figures where the pointer is.
const tip = document.getElementById("tip");
for (const mark of document.querySelectorAll(".mark")) {
  const title = mark.querySelector("title");
  if (!title) continue;
  const text = title.textContent;
  title.remove();
  mark.setAttribute("aria-label", text);
  mark.addEventListener("pointermove", (event) => {
    tip.textContent = text;
    tip.hidden = false;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const y = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8);
    tip.style.left = x + "px";
    tip.style.top = y + "px";
  });
  mark.addEventListener("pointerleave", () => { tip.hidden = true; });
}
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") === "false";
    button.setAttribute("aria-pressed", String(shown));
    for (const element of document.querySelectorAll(`[data-series="${button.dataset.of}"]`)) {
      element.classList.toggle("off", !shown);
    }
  });
}
