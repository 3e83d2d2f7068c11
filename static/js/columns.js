// Columns of the chosen kind as buttons: a click adds one to the list of columns that was used last, or takes it away.
const kind = document.querySelector("[name=kind]");
const offers = document.querySelector("[data-columns]");
const lists = ["columns", "group_by", "pivot"].map((name) => document.querySelector(`[name=${name}]`));
let used = lists[0];

const names = (list) => list.value.split(",").map((name) => name.trim()).filter(Boolean);

function show() {
  for (const one of offers.querySelectorAll("[data-kind]")) one.hidden = one.dataset.kind !== kind.value;
  offers.querySelector("[data-list]").textContent = used.labels[0].textContent.trim();
  const has = names(used);
  for (const button of offers.querySelectorAll("button")) button.ariaPressed = has.includes(button.textContent.trim());
}

offers.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const name = button.textContent.trim();
  const has = names(used);
  const others = used.name === "pivot" ? [] : has.filter((one) => one !== name);
  used.value = (has.includes(name) ? others : [...others, name]).join(", ");
  used.dispatchEvent(new Event("input", { bubbles: true }));
});
for (const list of lists) {
  list.addEventListener("focus", () => {
    used = list;
    show();
  });
  list.addEventListener("input", show);
}
kind.addEventListener("change", show);
lists[2].closest(".filters").after(offers);
offers.hidden = false;
show();
