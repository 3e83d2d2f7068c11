// The waits of a retry schedule, drawn by uPlot (a classic script, loaded before this one), anew whenever it is swapped in.
let plot = null;
let place = null;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--chart-${name}`).trim();

function span(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 1) return `${milliseconds} ms`;
  for (const [length, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= length) return `${Number((seconds / length).toFixed(1))} ${name}`;
  }
  return `${Number(seconds.toFixed(1))} s`;
}

function draw() {
  plot?.destroy();
  plot = null;
  place = document.querySelector("[data-waits]");
  if (!place) return;
  place.replaceChildren();
  const waits = place.dataset.waits.split(",").map(Number);
  const axis = { stroke: colour("text"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const whole = (tick) => (Number.isInteger(tick) && tick >= 1 ? String(tick) : "");
  plot = new uPlot(
    {
      width: place.clientWidth,
      height: 220,
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: false, range: [0.5, waits.length + 0.5] }, y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.1)] } },
      axes: [{ ...axis, values: (_plot, ticks) => ticks.map(whole) }, { ...axis, size: 64, values: (_plot, ticks) => ticks.map(span) }],
      series: [
        { label: "Failure" },
        {
          label: "Waits",
          stroke: colour("retried"),
          fill: `${colour("retried")}44`,
          width: 1,
          paths: uPlot.paths.bars({ size: [0.7, 60] }),
          points: { show: false },
          value: (_plot, value) => (value == null ? "–" : span(value)),
        },
      ],
    },
    [waits.map((_, index) => index + 1), waits],
    place,
  );
}

draw();
document.addEventListener("theme", draw);
document.addEventListener("htmx:afterSwap", draw);
window.addEventListener("resize", () => plot?.setSize({ width: place.clientWidth, height: 220 }));
