// Keys for triage. Destructive ones only open a dialog, and all can be switched off.
import { remember, remembered } from "./memory.js";

const rows = () => [...document.querySelectorAll("tr[data-row]")];
let leading = 0;

function current() {
  return document.querySelector("tr[data-row].current");
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(current());
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))];
  for (const row of all) row.classList.toggle("current", row === next);
  next.querySelector("a[data-open]")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function tick() {
  const box = current()?.querySelector(".tick input");
  if (box && !box.disabled) box.click();
}

function decide(action) {
  const button = document.querySelector(`[data-decision="${action}"]`);
  if (!button) return;
  const anyTicked = document.querySelector("form[data-rows] input[name=id]:checked");
  if (button.disabled && !anyTicked) tick();
  document.dispatchEvent(new CustomEvent("rows:count"));
  if (!button.disabled) button.click();
}

function goTo(key) {
  const link = document.querySelector(`#shortcuts a[data-key="${CSS.escape(key)}"]`);
  if (link) location.assign(link.href);
}

const KEYS = {
  "/": () => document.getElementById("search").select(),
  j: () => move(1),
  k: () => move(-1),
  o: () => (current()?.querySelector("a[data-open]") ?? document.querySelector("a[data-open]"))?.click(),
  x: tick,
  a: () => decide("approve"),
  f: () => decide("fail"),
  "?": () => document.querySelector("#navigation .help").click(),
  g: () => (leading = Date.now()),
};

function isTyping(target) {
  return target instanceof Element && (target.matches("input:not([type=checkbox]), textarea, select") || target.isContentEditable);
}

document.addEventListener("keydown", (event) => {
  if (remembered("shortcuts", "on") === "off" && event.key !== "?") return;
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  if (Date.now() - leading < 1500 && event.key !== "g") {
    leading = 0;
    event.preventDefault();
    goTo(event.key);
    return;
  }
  if (Date.now() - leading < 1500 && event.key === "g") {
    leading = 0;
    goTo("g");
    return;
  }
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

const on = document.getElementById("shortcuts-on");
if (on) {
  on.checked = remembered("shortcuts", "on") === "on";
  on.addEventListener("change", () => remember("shortcuts", on.checked ? "on" : "off"));
}
