"""Axe, the accessibility checker, on a page; run past the page's Content-Security-Policy without weakening it."""

from importlib.resources import files

from playwright.sync_api import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(page: Page, *rules: str) -> list[str]:
    """Return what axe finds wrong, one sentence an element: WCAG 2.2 AA and best practices, or only these `rules`."""
    # evaluate() goes through the browser's debugger, which the policy does not bind, and which loads no script element.
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    only = {"type": "rule", "values": list(rules)} if rules else {"type": "tag", "values": TAGS}
    found = page.evaluate("only => axe.run(document, {runOnly: only})", only)
    return [
        f"{problem['id']}: {problem['help']}: {node['html'][:160]} {' '.join(node['failureSummary'].split())[:260]}"
        for problem in found["violations"]
        for node in problem["nodes"][:3]
    ]
