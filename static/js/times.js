// Times: relative ones stay true while the page is open, absolute ones are in UTC or in the reader's zone.
import { remember, remembered } from "./memory.js";

const UNITS = [[31536000, "y"], [86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function span(seconds) {
  const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? UNITS.at(-1);
  return `${Math.floor(seconds / size)} ${unit}`;
}

function distance(when) {
  const seconds = Math.round((Date.now() - when) / 1000);
  if (seconds === 0) return "now";
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}

const two = (number) => String(number).padStart(2, "0");

function absolute(when, zone) {
  const at = new Date(when);
  if (zone === "utc") return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  const offset = -at.getTimezoneOffset();
  const name = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${name}`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function refresh(root = document) {
  const zone = remembered("zone", "utc");
  for (const time of root.querySelectorAll("time[datetime]")) {
    const when = Date.parse(time.dateTime);
    if (Number.isNaN(when)) continue;
    if (time.classList.contains("at")) {
      write(time, absolute(when, zone));
      time.title = distance(when);
    } else {
      // What was due when the page was made may be delivered by now: only a new page can say.
      const isPast = when <= Date.now() && time.closest("[data-due]") && !time.closest("[data-live]");
      write(time, isPast ? "when this page was loaded" : distance(when));
      time.title = absolute(when, zone);
    }
  }
  const name = document.querySelector("[data-zone-name]");
  if (name) write(name, zone === "utc" ? "UTC" : "Local");
}

document.addEventListener("click", (event) => {
  if (!(event.target instanceof Element) || !event.target.closest("[data-toggle-zone]")) return;
  remember("zone", remembered("zone", "utc") === "utc" ? "local" : "utc");
  refresh();
  document.dispatchEvent(new CustomEvent("zone"));
});
document.addEventListener("htmx:afterSettle", () => refresh());
setInterval(() => refresh(), 10000);
refresh();
