// States, reasons and words of the ledger: their meaning on focus and tap; a pointer above one shows its title anyway.
const hint = document.createElement("div");
hint.className = "explanation";
hint.setAttribute("role", "tooltip");
hint.popover = "manual";
document.getElementById("content")?.append(hint);

function explain(event) {
  const word = event.target instanceof Element ? event.target.closest("[data-explained]") : null;
  if (!word) return hint.hidePopover();
  hint.textContent = word.title;
  hint.showPopover();
  const { left, bottom } = word.getBoundingClientRect();
  hint.style.left = `${Math.max(8, Math.min(left, innerWidth - hint.offsetWidth - 8))}px`;
  hint.style.top = `${Math.min(bottom + 4, innerHeight - hint.offsetHeight - 8)}px`;
}

if (hint.isConnected) {
  document.addEventListener("focusin", explain);
  document.addEventListener("click", explain);
  document.addEventListener("focusout", () => hint.hidePopover());
  document.addEventListener("scroll", () => hint.hidePopover(), { passive: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hint.hidePopover());
}
