"""Axe, the accessibility checker, on a page; run past the page's Content-Security-Policy without weakening it."""

from importlib.resources import files

from playwright.sync_api import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(page: Page) -> list[str]:
    """Return what axe finds wrong, one sentence an element, WCAG 2.2 AA and best practices."""
    # evaluate() goes through the browser's debugger, which the policy does not bind, and which loads no script element.
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", TAGS)
    return [
        f"{problem['id']}: {problem['help']}: {node['html'][:160]} {' '.join(node['failureSummary'].split())[:260]}"
        for problem in found["violations"]
        for node in problem["nodes"][:3]
    ]
