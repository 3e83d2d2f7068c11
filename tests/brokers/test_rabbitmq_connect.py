"""A queue of a real RabbitMQ is connected to a real endpoint in a real browser, against all that `make up` starts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.brokers.messages import Sent
from tests.brokers.rabbitmq import ManagedRabbitMq
from tests.brokers.rabbitmq_queues import ClassicQueues
from tests.brokers.server import running
from tests.browser.connect_walk import connect_queue
from tests.browser.ensure_chromium import chromium_path
from tests.browser.shots import ARGUMENTS
from tests.fixtures.endpoint import endpoint
from tests.whole_system.installation import Installation, until

PASSWORD = "correct-horse-battery"


@pytest.fixture
def page(installation: Installation) -> Iterator[Page]:
    """Yield the first page of an administrator who has just logged in."""
    installation.post("accounts/", {"name": "mara", "role": "admin", "password": PASSWORD})
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"http://127.0.0.1:{installation.port}/accounts/login/")
        page.fill("input[name=login]", "mara")
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        yield page
        browser.close()


def test_a_queue_is_drained_to_an_endpoint_within_twelve_clicks(
    page: Page, installation: Installation, tmp_path: Path
) -> None:
    with running(ManagedRabbitMq(tmp_path)) as server, endpoint() as (url, answers):
        answers.set()
        queues = ClassicQueues(server)
        name, dead = queues.dead_letter([Sent(b'{"n": 1}', message_id="m-1")])
        typed = {
            "url": f"amqp://127.0.0.1:{server.port}",
            "username": "guest",
            "password": "guest",
            "management_url": server.management,
        }
        page.goto(f"http://127.0.0.1:{installation.port}/sources/")
        click = connect_queue(page, typed, dead, url)
        expect(page.locator("#first-message")).to_contain_text("The first message is here", timeout=60_000)
        click(role="link", name="Open message")
        expect(page.locator("main")).to_contain_text(name)
        click(role="button", name="Approve")
        page.get_by_label("Reason").fill("connected")
        page.locator("#dialog").get_by_role("button", name="Approve").click()
        assert click.count + 1 <= 12
        message_id = int(page.url.rstrip("/").rpartition("/")[2].partition("?")[0])
        until(lambda: installation.get(f"messages/{message_id}/")["state"] == "DLVD", 60)
        assert queues.depth(dead) == 0
