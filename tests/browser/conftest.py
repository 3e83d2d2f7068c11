"""The real web server on the test database, and Chromium in front of it."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from playwright.sync_api import Browser, Page, sync_playwright

from poisonadmin.core.domain.access import Role
from poisonadmin.store.models.access import Access
from tests.browser.ensure_chromium import chromium_path
from tests.browser.shots import ARGUMENTS

PASSWORD = "correct-horse-battery"
START_SECONDS = 30


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


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Yield Chromium; fail, naming the package, where there is none."""
    with pytest.MonkeyPatch.context() as patch:
        # Playwright runs an event loop in this thread, in which Django refuses to ask the database.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
            yield browser
            browser.close()


@pytest.fixture(scope="session")
def collected() -> None:
    """Collect the front-end files, as `make assets` does."""
    call_command("collectstatic", interactive=False, verbosity=0)


@pytest.fixture(scope="session")
def server(django_db_setup: None, collected: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the web process, as `make up` starts it, on the test's database."""
    log_path = tmp_path_factory.mktemp("web") / "web.log"
    port = _free_port()
    environment = os.environ | {
        "DATABASE_URL": _test_database_url(),
        "POISONADMIN_HOME": str(settings.HOME),
        "DJANGO_SETTINGS_MODULE": "poisonadmin.settings",
    }
    command = [sys.executable, "-m", "uvicorn", "poisonadmin.asgi:application", "--port", str(port), "--no-access-log"]
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=settings.BASE_DIR)
        try:
            base = f"http://127.0.0.1:{port}"
            _wait_until_it_answers(f"{base}/accounts/login/", process, log_path)
            yield base
        finally:
            process.terminate()
            process.wait(timeout=15)


@pytest.fixture
def visit(transactional_db: None, server: str, chromium: Browser) -> Iterator[Visit]:
    """Yield a page on which an operator has logged in by the form."""
    user = User.objects.create_user("mara", password=PASSWORD)
    Access.objects.create(user=user, role=Role.OPERATOR)
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    visiting = Visit(context.new_page(), server)
    visiting.page.on("console", lambda said: visiting.complaints.append(said.text) if said.type == "error" else None)
    visiting.page.on("pageerror", lambda error: visiting.complaints.append(str(error)))
    visiting.page.on("dialog", lambda dialog: dialog.dismiss())
    visiting.open("/accounts/login/")
    visiting.page.fill("input[name=login]", "mara")
    visiting.page.fill("input[name=password]", PASSWORD)
    visiting.page.click("button[type=submit]")
    visiting.page.wait_for_url(f"{server}/")
    yield visiting
    context.close()


def _test_database_url() -> str:
    found = connection.settings_dict
    user, password = quote(found["USER"], safe=""), quote(found["PASSWORD"], safe="")
    return f"postgresql://{user}:{password}@{found['HOST']}:{found['PORT']}/{found['NAME']}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
