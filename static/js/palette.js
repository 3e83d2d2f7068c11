// The palette: Ctrl-K opens it, the arrows walk through its places, Enter goes there.
const palette = document.getElementById("palette");
const text = document.getElementById("palette-text");

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  if (palette.open) return palette.close();
  palette.showModal();
  text.select();
});

palette.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const places = [text, ...palette.querySelectorAll("a.place")];
  const at = places.indexOf(document.activeElement);
  const next = at + (event.key === "ArrowDown" ? 1 : -1);
  places[(next + places.length) % places.length].focus();
  event.preventDefault();
});

// Enter in the text goes to the first place for it, once the server has answered what was typed last.
let asked = "", answered = "", goes = false;
function go() {
  goes = answered !== text.value;
  if (goes) return;
  const first = palette.querySelector("a.place");
  if (first) location.assign(first.href);
  else palette.querySelector("form").submit();
}
text.addEventListener("htmx:beforeRequest", () => { asked = text.value; });
document.getElementById("palette-places").addEventListener("htmx:afterSwap", () => {
  answered = asked;
  if (goes) go();
});
palette.querySelector("form").addEventListener("submit", (event) => {
  if (!text.value) return;
  event.preventDefault();
  go();
});
