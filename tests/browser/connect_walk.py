"""The guided way from a queue of RabbitMQ to an HTTP endpoint, clicked through; with real brokers too."""

from collections.abc import Callable, Mapping
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.axe import violations


class Clicks:
    """Counts what a person clicks and chooses from lists; what is typed is not counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    def __call__(self, **role: Any) -> None:
        self.count += 1
        self.page.get_by_role(**role).first.click()

    def choose(self, label: str, option: str) -> None:
        """Choose from a list."""
        self.count += 1
        self.page.get_by_label(label, exact=True).select_option(option)

    def open_menu(self, words: str) -> None:
        """Open what is folded away."""
        self.count += 1
        self.page.locator("summary", has_text=words).first.click()


def assert_is_fine(page: Page, step: str) -> None:
    """Fail where axe complains, or the page is wider than the window."""
    page.wait_for_load_state("networkidle")
    page.evaluate("scrollTo(0, 0)")
    assert violations(page) == [], step
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, step


def connect_queue(
    page: Page,
    typed: Mapping[str, str],
    queue: str,
    endpoint: str,
    *,
    worker: Callable[[], object] = lambda: None,
    at: Callable[[Page, str], None] = assert_is_fine,
) -> Clicks:
    """Walk from the empty first page until everything is made; return the clicks.

    `typed`: what the first step is told. `worker`: looks at the broker, where nobody does. `at`: called at each step.
    """
    click = Clicks(page)
    click(role="link", name="Connect a queue")
    for name, text in typed.items():
        page.fill(f"#{name}", text)
    at(page, "place")
    click(role="button", name="Find queues")
    worker()
    check = page.locator("#check-answer")
    expect(check).to_contain_text("found", timeout=30_000)
    at(page, "queues")
    click(role="button", name=f"Add {queue}", exact=True)
    expect(page.locator("#queues")).to_have_value(queue)
    click(role="button", name="See a message")
    worker()
    expect(page.locator("#check-answer")).to_contain_text("Nothing was taken", timeout=30_000)
    at(page, "message")
    click(role="link", name="Next")
    click(role="radio", name="An HTTP endpoint")
    page.fill("#url", endpoint)
    at(page, "target")
    click(role="button", name="Next")
    page.get_by_label("max delivery attempts").fill("6")
    page.get_by_label("redelivery delay", exact=True).fill("2 min")
    page.get_by_label("redelivery delay multiplier").fill("1")
    page.get_by_label("max redelivery delay").fill("2 min")
    expect(page.locator("#retry-schedule [data-waits]")).to_have_attribute("data-waits", ",".join(["120000"] * 5))
    at(page, "retry")
    click(role="button", name="Next")
    expect(page.locator("main")).to_contain_text("Tried 6 times, 2 min apart")
    at(page, "begin")
    click(role="button", name="Begin")
    expect(page.get_by_role("heading", level=1)).to_have_text("Connected")
    at(page, "made")
    return click
