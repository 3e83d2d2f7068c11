"""Every page has help of its own, made of our documents, whose links lead on within it."""

import re
from pathlib import Path

import pytest
from django.test import Client

from poisonadmin.system.pages.shell import topic_of
from poisonadmin.web.pages.documentation import PREFIX, documents, headings_holding
from tests.fixtures.pages import log_in, page_routes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def browser(db: None, page_settings: None) -> Client:
    """A viewer, logged in."""
    return log_in("viewer")


def test_every_page_has_help_and_every_document_and_heading_that_is_named_exists() -> None:
    topics = {route.name: topic_of(route.callback, route.name or "") for route in page_routes()}
    headings = [one for document in documents().values() for one in document.headings]
    known = {f"{one.document}#{one.anchor}".rstrip("#") for one in headings}
    assert [name for name, topic in topics.items() if topic not in known] == []
    assert len(set(topics.values())) > 30


def test_a_page_without_help_of_its_own_has_that_of_its_entry() -> None:
    topics = {route.name: topic_of(route.callback, route.name or "") for route in page_routes()}
    assert topics["operations-selection"] == "use/operations#preview"
    assert topics["operations-csv"] == topics["operations"] == "use/operations#carrying-it-out"


def test_links_of_help_lead_to_help_or_to_other_sites() -> None:
    astray = []
    for document in documents().values():
        for target in re.findall(r' href="([^"]*)"', document.html):
            path, _, anchor = target.partition("#")
            name = path.removeprefix("/help/").rstrip("/") if path else document.name
            headings = documents()[name].headings if name in documents() else ()
            if not path.startswith("https://") and anchor.removeprefix(PREFIX) not in {one.anchor for one in headings}:
                astray.append((document.name, target))
    assert astray == []
    assert len(documents()) == len([*ROOT.glob("docs/use/*.md"), *ROOT.glob("docs/operate/*.md")]) > 20


def test_headings_have_ids_and_html_and_diagrams_of_a_document_are_not_let_through() -> None:
    page = documents()["use/states"].html
    assert "stateDiagram" not in page
    assert '<h2 id="help-selection">' in documents()["use/operations"].html
    assert not re.search(r"<(img|script|style)|style=", "".join(one.html for one in documents().values()))


def test_help_is_a_panel_to_scripts_and_a_page_without_them(browser: Client) -> None:
    page = browser.get("/help/use/search/").content.decode()
    assert "<title>Help: Search · PoisonAdmin</title>" in page
    panel = browser.get("/help/use/search/", headers={"HX-Request": "true"}).content.decode()
    assert panel.lstrip().startswith("<article")
    assert 'data-close-dialog autofocus aria-label="Close the help"' in panel
    for text in (page, panel):
        assert '<h2 id="dialog-title">Search</h2>' in text
        assert '<a href="/help/use/search/" hx-get="/help/use/search/" aria-current="page">Search</a>' in text
    assert browser.get("/help/use/nothing/").status_code == 404
    assert browser.get("/help/develop/architecture/").status_code == 404


def test_a_page_leads_to_the_help_that_belongs_to_it(browser: Client) -> None:
    for page, topic in {
        "/alerts/": "use/alerts/",
        "/": "use/dashboard/#help-home",
        "/you/": "use/dashboard/#help-roles",
    }.items():
        assert f'<a class="help" href="/help/{topic}"' in browser.get(page).content.decode()


def test_the_palette_finds_headings_of_help(browser: Client) -> None:
    assert [name for name, _ in headings_holding("sign-off", 2)] == ["Operations: Sign-off"]
    assert [name for name, _ in headings_holding("FIXED approve", 2)] == ["Operations: Approve when fixed"]
    answer = browser.get("/palette/", {"q": "legal holds"}).content.decode()
    assert 'href="/help/operate/archive/#help-legal-holds"' in answer
    assert "Archive: Legal holds" in answer
    assert 'tag">Help' not in browser.get("/palette/").content.decode()


def test_the_image_holds_the_documents() -> None:
    assert "\nCOPY . .\n" in (ROOT / "Dockerfile").read_text()
    folders = {f"!docs/{name.partition('/')[0]}" for name in documents()}
    assert folders <= set((ROOT / ".dockerignore").read_text().splitlines())
