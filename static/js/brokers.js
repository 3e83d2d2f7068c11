// The forms of a broker: only what its kind has is shown, and a queue that was found is added by a click.
const kind = document.getElementById("kind");
const queues = document.getElementById("queues");

function showWhatFits() {
  for (const input of document.querySelectorAll("[data-kinds]")) {
    input.closest(".field").hidden = !input.dataset.kinds.split(" ").includes(kind.value);
  }
}

function named() {
  return queues.value.split("\n").map((line) => line.trim()).filter(Boolean);
}

function offerQueues() {
  for (const button of document.querySelectorAll("[data-add-queue]")) {
    button.hidden = queues === null;
    if (queues !== null) button.disabled = named().includes(button.dataset.addQueue);
  }
}

kind?.addEventListener("change", showWhatFits);
queues?.addEventListener("input", offerQueues);
document.addEventListener("htmx:afterSettle", offerQueues);
document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-add-queue]") : null;
  if (!button || named().includes(button.dataset.addQueue)) return;
  queues.value = [...named(), button.dataset.addQueue].join("\n");
  offerQueues();
});
showWhatFits();
offerQueues();
