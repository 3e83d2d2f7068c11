// Runs before the first paint, so that a dark page does not flash white; that is why it is no module.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem("theme") || "system";
    } catch {
      return "system";
    }
  };
  const apply = () => {
    const choice = chosen();
    const theme = choice === "system" ? (dark.matches ? "dark" : "light") : choice;
    document.documentElement.dataset.bsTheme = theme;
    document.documentElement.dataset.themeChoice = choice;
    document.dispatchEvent(new CustomEvent("theme", { detail: theme }));
  };
  dark.addEventListener("change", apply);
  document.addEventListener("theme-chosen", apply);
  apply();
})();
