"""The real web server on the test database, and Chromium in front of it."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from playwright.sync_api import Browser, ConsoleMessage, Page, StorageState, expect, sync_playwright
from pytest_django import DjangoDbBlocker

from poisonadmin.core.domain.access import Role
from poisonadmin.embedded.ports import free_port
from poisonadmin.store.models.access import Access
from tests.browser.ensure_chromium import chromium_path
from tests.browser.example_data.installation import fill_database
from tests.browser.shots import ARGUMENTS
from tests.fixtures.database import Snapshot, taken_away

PASSWORD = "correct-horse-battery"
START_SECONDS = 120
# Beside the rest of the suite a page may take as long; what never comes fails all the same.
expect.set_options(timeout=30_000)
# On a slow machine a poll may still be under way when the next one takes its place. Errors have names of their own.
ABORTED = ("htmx:sendAbort", "htmx:afterRequest")


@dataclass
class Visit:
    """A page of a logged-in operator, and everything that the browser complained of meanwhile."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Go to a path of the dashboard."""
        self.page.goto(f"{self.base}{path}")
        return self.page

    def open_with_clock(self, path: str) -> Page:
        """Go to a path with a clock that goes as always, and that `page.clock` puts forward, with all its timers."""
        self.page.clock.install()
        return self.open(path)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Yield Chromium; fail, naming the package, where there is none."""
    with pytest.MonkeyPatch.context() as patch:
        # Playwright runs an event loop in this thread, in which Django refuses to ask the database.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
            yield browser
            browser.close()


@pytest.fixture(scope="package")
def server(test_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the web process, as `make up` starts it, on the test's database."""
    call_command("collectstatic", interactive=False, verbosity=0)
    log_path = tmp_path_factory.mktemp("web") / "web.log"
    port = free_port()
    environment = os.environ | {
        "DATABASE_URL": test_database_url,
        "POISONADMIN_HOME": str(settings.HOME),
        "DJANGO_SETTINGS_MODULE": "poisonadmin.settings",
    }
    command = [sys.executable, "-m", "poisonadmin.serve", "--port", str(port)]
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=settings.BASE_DIR)
        try:
            base = f"http://127.0.0.1:{port}"
            _wait_until_it_answers(f"{base}/accounts/login/", process, log_path)
            yield base
        finally:
            process.terminate()
            process.wait(timeout=15)


@pytest.fixture(scope="package")
def logged_in(server: str, chromium: Browser, django_db_blocker: DjangoDbBlocker) -> tuple[Snapshot, StorageState]:
    """Return the database in which an operator has just logged in by the form, and the browser's part of it."""
    with django_db_blocker.unblock():
        user = User.objects.create_user("mara", password=PASSWORD)
        Access.objects.create(user=user, role=Role.OPERATOR)
        page = chromium.new_page()
        page.goto(f"{server}/accounts/login/")
        page.fill("input[name=login]", "mara")
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_url(f"{server}/")
        cookies = page.context.storage_state()
        page.close()
        return taken_away("logged_in"), cookies


@pytest.fixture(scope="package")
def busy(logged_in: tuple[Snapshot, StorageState], django_db_blocker: DjangoDbBlocker) -> Snapshot:
    """Return a database full of example data, in which the operator has logged in."""
    with django_db_blocker.unblock():
        logged_in[0].restore()
        fill_database()
        return taken_away("busy")


@pytest.fixture
def visit(
    transactional_db: None, server: str, chromium: Browser, logged_in: tuple[Snapshot, StorageState]
) -> Iterator[Visit]:
    """Yield the page of an operator who has logged in, with nothing else in the database."""
    database, cookies = logged_in
    database.restore()
    with _visit(server, chromium, cookies) as visiting:
        yield visiting


@pytest.fixture
def busy_visit(
    transactional_db: None,
    server: str,
    chromium: Browser,
    busy: Snapshot,
    logged_in: tuple[Snapshot, StorageState],
) -> Iterator[Visit]:
    """Yield the page of an operator who has logged in, with the database full of example data."""
    busy.restore()
    with _visit(server, chromium, logged_in[1]) as visiting:
        yield visiting


@contextmanager
def _visit(server: str, chromium: Browser, cookies: StorageState) -> Iterator[Visit]:
    # Without motion, for axe judges where things are, not where they come to a rest.
    context = chromium.new_context(
        viewport={"width": 1280, "height": 900}, storage_state=cookies, reduced_motion="reduce"
    )
    visiting = Visit(context.new_page(), server)

    def complain(said: ConsoleMessage) -> None:
        if said.type == "error" and not said.text.startswith(ABORTED):
            visiting.complaints.append(said.text)

    visiting.page.on("console", complain)
    visiting.page.on("pageerror", lambda error: visiting.complaints.append(str(error)))
    visiting.page.on("dialog", lambda dialog: dialog.dismiss())
    yield visiting
    context.close()


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.1)
    raise AssertionError(f"The web process did not answer:\n{log.read_text()[-4000:]}")
