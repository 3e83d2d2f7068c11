// The frame around every page: theme, side bar, menus, notes, and what happens when the server does not answer.
import "./explain.js";
import { remember } from "./memory.js";

const THEMES = ["system", "light", "dark"];

function nameTheme() {
  const name = document.querySelector("[data-theme-name]");
  if (name) name.textContent = document.documentElement.dataset.themeChoice;
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  if (!target) return;
  if (target.closest("[data-toggle-theme]")) {
    const now = document.documentElement.dataset.themeChoice;
    remember("theme", THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
    document.dispatchEvent(new CustomEvent("theme-chosen"));
    nameTheme();
  }
  const toggle = target.closest("[data-toggle-navigation]");
  if (toggle) {
    const open = toggle.getAttribute("aria-expanded") !== "true";
    toggle.setAttribute("aria-expanded", String(open));
    document.getElementById("navigation").classList.toggle("open", open);
  }
  target.closest("[data-dismiss]")?.closest(".alert")?.remove();
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(target)) menu.open = false;
  }
  const copy = target.closest("[data-copy]");
  if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => copy.setAttribute("data-copied", ""));
  // The clipboard takes a text that is still to come, so that this stays the answer to the click.
  const brief = target.closest("a[data-copy-page]");
  if (brief && navigator.clipboard && window.ClipboardItem) {
    event.preventDefault();
    const text = fetch(brief.href).then(async (answer) => new Blob([await answer.text()], { type: "text/plain" }));
    navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]).then(
      () => { brief.querySelector("[data-copied-words]").textContent = "Copied"; },
      () => { location.href = brief.href; },
    );
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// What is cut to its cell is said whole on hover.
document.addEventListener("mouseover", (event) => {
  const cut = event.target instanceof Element && event.target.closest("td.wild, .one-line, .two-lines");
  if (cut && !cut.title && (cut.scrollWidth > cut.clientWidth || cut.scrollHeight > cut.clientHeight + 2)) {
    cut.title = cut.textContent.trim().replace(/\s+/g, " ");
  }
});

const connection = document.getElementById("connection");
document.addEventListener("htmx:sendError", () => connection.removeAttribute("hidden"));
document.addEventListener("htmx:responseError", () => connection.removeAttribute("hidden"));
document.addEventListener("htmx:afterOnLoad", () => connection.setAttribute("hidden", ""));
// A page in the background need not ask; it asks again when it is looked at.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.detail.elt.hasAttribute("data-live")) event.preventDefault();
});

// A sub-list that is opened by a link to it must be open.
function openTarget() {
  const found = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (found instanceof HTMLDetailsElement) found.open = true;
}
window.addEventListener("hashchange", openTarget);

// On a phone not all tabs fit: the one of this page is there to be seen.
const tab = document.querySelector(".sections [aria-current]");
if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft;

nameTheme();
openTarget();
