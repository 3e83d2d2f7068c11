"""Every page in Chromium: nothing planted runs, the policy holds, axe is content, and 320 px are enough."""

import pytest

from poisonadmin.addresses.commands import pause
from poisonadmin.core.domain.access import SYSTEM
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.browser.shots import paths
from tests.fixtures.pages import dead_letter
from tests.web.test_hostile_text import BARE, XSS

pytestmark = pytest.mark.django_db(transaction=True)

REFUSED = {
    *(
        "mistaken",
        "missing",
        "policy-new",
        "policy",
        "restart-job-new",
        "rule-new",
        "rule-new-after",
        "sign-off-rule-new",
        "alert-rule-new",
    ),
    *(
        "connect",
        "connect-files",
        "connect-programs",
        "destination-new",
        "destination-new-http",
        "destination-new-handler",
    ),
}
# Between them they hold every colour there is.
COLOURFUL = {
    *("overview", "messages", "message-undecided", "policies", "jobs", "mistaken", "missing"),
    *("crashed", "groups", "message-blacklisted", "nodes-all", "poison-list", "rules", "rule"),
    *("simulator", "message-held", "address-stopped", "restart-jobs", "alerts", "alert-delivery"),
}


@pytest.mark.long
def test_every_page_is_accessible_and_keeps_to_the_policy(busy_visit: Visit) -> None:
    found: list[str] = []
    visited = paths(busy_visit.page, busy_visit.base)
    for name, path in visited.items():
        busy_visit.complaints.clear()
        page = busy_visit.open(path)
        found += [f"{name}: {problem}" for problem in violations(page)]
        found += [
            f"{name}: {complaint}"
            for complaint in busy_visit.complaints
            if name not in REFUSED or "Failed to load resource" not in complaint
        ]
        page.set_viewport_size({"width": 320, "height": 900})
        beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if beyond > 0:
            found.append(f"{name}: reaches {beyond} px beyond a window of 320 px")
        page.set_viewport_size({"width": 1280, "height": 900})
    assert found == []
    assert len(visited) > 20


@pytest.mark.long
def test_the_dark_theme_can_be_read(busy_visit: Visit) -> None:
    busy_visit.page.emulate_media(color_scheme="dark")
    found: list[str] = []
    for name, path in paths(busy_visit.page, busy_visit.base).items():
        if name in COLOURFUL:
            page = busy_visit.open(path)
            found += [f"{name}: {problem}" for problem in violations(page, "color-contrast", "link-in-text-block")]
    assert found == []


@pytest.mark.parametrize("path", ["/accounts/login/", "/accounts/signup/"])
def test_the_way_in_is_accessible(visit: Visit, path: str) -> None:
    visit.page.context.clear_cookies()
    assert violations(visit.open(path)) == []


def test_nothing_that_was_planted_runs(visit: Visit) -> None:
    message = dead_letter(
        BARE,
        message_id=XSS,
        conversation_id=XSS,
        headers={"X-Evil": XSS},
        content_type="text/html",
        payload=f"<html><body>{XSS}</body></html>",
        dead_letter={"exception_class": XSS, "exception_message": XSS, "stack": XSS, "reason": XSS},
    )
    pause(BARE, principal=SYSTEM, reason=XSS)
    visit.page.add_init_script("window.hit = 0; window.alert = () => { window.hit = 1; };")
    listed = (
        "/",
        "/triage/",
        "/triage/?group_by=failure",
        "/triage/?group_by=failures",
        "/addresses/",
        "/audit/",
        "/triage/?q=%3Cimg/src=x/onerror=hit()%3E",
    )
    for path in (*listed, *(f"/messages/{message.id}/?view={view}" for view in ("raw", "hex"))):
        page = visit.open(path)
        page.wait_for_load_state("load")
        assert page.evaluate("window.hit") == 0, path
        assert page.evaluate("document.querySelectorAll('main img, main iframe, main svg[onload]').length") == 0, path
    page.locator("#search").fill(XSS[:200])
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.evaluate("window.hit") == 0
    with page.expect_download() as download:
        page.evaluate(f"location.assign('/messages/{message.id}/payload/')")
    assert download.value.suggested_filename == f"message-{message.id}.bin"
    assert [said for said in visit.complaints if "Content Security Policy" in said] == []
