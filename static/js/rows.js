// Ticking rows: single, ranges with Shift, all that are shown; and how many there are.
const form = document.querySelector("form[data-rows]");
let last = null;

const boxes = () => [...form.querySelectorAll("tbody .tick input")].filter((box) => !box.disabled);

function count() {
  const all = boxes();
  const ticked = all.filter((box) => box.checked);
  for (const box of all) box.closest("tr").classList.toggle("ticked", box.checked);
  const bar = form.querySelector(".ticked-bar");
  bar?.classList.toggle("idle", ticked.length === 0);
  const words = form.querySelector("[data-ticked]");
  if (words) words.textContent = ticked.length ? `${ticked.length} ticked` : "None ticked";
  for (const button of form.querySelectorAll("[data-needs-ticked]")) button.disabled = ticked.length === 0;
  const head = form.querySelector("[data-tick-all]");
  if (head) {
    head.checked = all.length > 0 && ticked.length === all.length;
    head.indeterminate = ticked.length > 0 && ticked.length < all.length;
  }
}

form?.addEventListener("click", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement) || !box.matches("tbody .tick input")) return;
  const all = boxes();
  if (event.shiftKey && last && all.includes(last)) {
    const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
    for (const between of all.slice(from, to + 1)) between.checked = box.checked;
  }
  last = box;
});
form?.addEventListener("change", (event) => {
  if (event.target.matches("[data-tick-all]")) for (const box of boxes()) box.checked = event.target.checked;
  count();
});
document.addEventListener("htmx:afterSettle", () => form && count());
document.addEventListener("rows:count", () => form && count());
if (form) count();
