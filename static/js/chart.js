// Outcomes over time, drawn by uPlot (a classic script, loaded before this one).
const place = document.getElementById("outcomes-chart");
const note = document.getElementById("outcomes-note");
const SERIES = [
  ["Delivered", "delivered"],
  ["Failed, to be tried again", "retried"],
  ["Set aside for a decision", "undecided"],
  ["Given up", "failed"],
];
let plot = null;
let drawn = null;
let counts = null;
let deployments = [];
const range = (_plot, _min, max) => [0, Math.max(4, max * 1.1)];
const whole = (_plot, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString("en") : ""));

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--chart-${name}`).trim();

function zone() {
  try {
    return localStorage.getItem("zone") ?? "utc";
  } catch {
    return "utc";
  }
}

function clock(seconds) {
  const at = new Date(seconds * 1000);
  const [hours, minutes] = zone() === "utc" ? [at.getUTCHours(), at.getUTCMinutes()] : [at.getHours(), at.getMinutes()];
  return `${String(hours).padStart(2, "0")}:${String(minutes).padStart(2, "0")}`;
}

// A line for each deployment, with its words beside it.
function mark(plot) {
  const { left, top, width, height } = plot.bbox;
  const pen = plot.ctx;
  pen.save();
  pen.strokeStyle = pen.fillStyle = colour("text");
  pen.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  pen.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const [at, words] of deployments) {
    const x = plot.valToPos(at, "x", true);
    if (x < left || x > left + width) continue;
    pen.beginPath();
    pen.moveTo(x, top);
    pen.lineTo(x, top + height);
    pen.stroke();
    pen.textAlign = x > left + width / 2 ? "right" : "left";
    pen.fillText(words.slice(0, 40), x + (pen.textAlign === "left" ? 4 : -4), top + 12 * devicePixelRatio);
  }
  pen.restore();
}

// Each bar stands on those after it, so that all of them together are as high as their sum.
function stacked(found) {
  const tops = SERIES.map(([, key]) => [...found[key]]);
  for (let one = tops.length - 2; one >= 0; one--) tops[one] = tops[one].map((count, at) => count + tops[one + 1][at]);
  return [found.at, ...tops, found.backlog];
}

function options() {
  const axis = { stroke: colour("text"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    width: place.clientWidth,
    height: 220,
    tzDate: (seconds) => (zone() === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
    hooks: { draw: [mark] },
    cursor: { y: false, drag: { x: false, y: false } },
    legend: { live: true },
    scales: { y: { range }, backlog: { range } },
    axes: [
      { ...axis, values: (_plot, ticks) => ticks.map(clock) },
      { ...axis, size: 56, values: whole },
      { ...axis, size: 56, values: whole, scale: "backlog", side: 1, grid: { show: false } },
    ],
    series: [
      { label: "Time", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
      ...SERIES.map(([label, key]) => ({
        label,
        stroke: colour(key),
        fill: colour(key),
        width: 0,
        paths: uPlot.paths.bars({ size: [0.8] }),
        points: { show: false },
        value: (_plot, value, _series, at) => (value == null ? "–" : counts[key][at].toLocaleString("en")),
      })),
      { label: "Backlog", scale: "backlog", stroke: colour("text"), width: 2, points: { show: false } },
    ],
  };
}

function draw() {
  if (!drawn) return;
  plot?.destroy();
  place.replaceChildren();
  plot = new uPlot(options(), drawn, place);
}

async function load() {
  const span = new URLSearchParams(location.search).get("span") ?? place.dataset.span;
  const answer = await fetch(`${place.dataset.url}?span=${encodeURIComponent(span)}`, { headers: { Accept: "application/json" } });
  const found = answer.headers.get("Content-Type")?.startsWith("application/json") ? await answer.json() : {};
  if (!answer.ok || !found.at) throw new Error(found.detail ?? "The chart cannot be read now.");
  const points = stacked(found);
  counts = found;
  const isFirst = !drawn || drawn[0].length !== points[0].length;
  drawn = points;
  deployments = found.deployments;
  if (isFirst || !plot) draw();
  else plot.setData(drawn);
  const total = SERIES.map(([label, key]) => `${found[key].reduce((sum, n) => sum + n, 0).toLocaleString("en")} ${label.toLowerCase()}`);
  const marks = deployments.length ? [`deployments: ${deployments.map(([, words]) => words).join(", ")}`] : [];
  note.textContent = `Events in this span: ${[...total, ...marks].join(" · ")}`;
}

async function refresh() {
  if (document.hidden) return;
  try {
    await load();
  } catch (error) {
    note.textContent = error.message;
  }
}

if (place) {
  refresh();
  setInterval(refresh, 10000);
  document.addEventListener("theme", draw);
  document.addEventListener("zone", draw);
  new ResizeObserver(() => plot?.setSize({ width: place.clientWidth, height: 220 })).observe(place);
}
