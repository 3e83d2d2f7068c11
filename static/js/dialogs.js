// Dialogs: what htmx puts into #dialog is shown as one, and the focus goes back to where it was.
const dialog = document.getElementById("dialog");
let opener = null;

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const open = target?.closest("[data-open-dialog]");
  if (open) document.getElementById(open.dataset.openDialog).showModal();
  if (target?.closest("[data-close-dialog]")) target.closest("dialog").close();
  // The backdrop belongs to the dialog element itself.
  if (target instanceof HTMLDialogElement && target.open) {
    const box = target.getBoundingClientRect();
    const outside = event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom;
    if (outside && event.detail > 0) target.close();
  }
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target?.id === "dialog-body" && !dialog.open) opener = document.activeElement;
});
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target?.id !== "dialog-body") return;
  if (!dialog.open) dialog.showModal();
  (dialog.querySelector("[autofocus]") ?? dialog.querySelector("button"))?.focus();
});
dialog.addEventListener("close", () => {
  document.getElementById("dialog-body").replaceChildren();
  // Not into view: after a decision the note at the top is what is read.
  if (opener?.isConnected) opener.focus({ preventScroll: true });
  opener = null;
});
// The answer to a decision says so in a header; the rows it changed came along.
document.addEventListener("decided", () => {
  dialog.close();
  document.getElementById("flash").scrollIntoView({ block: "nearest" });
});
