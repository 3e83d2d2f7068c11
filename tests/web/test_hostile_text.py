"""What strangers write is shown, never acted upon."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse

from poisonadmin.addresses.commands import pause
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.claim import Node
from poisonadmin.store.models.intake import RejectedLine, Source, SourceFile
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.poison import Consumer
from poisonadmin.web.pages import documentation
from tests import crashes
from tests.fixtures import decisions
from tests.fixtures.pages import dead_letter, waiting

pytestmark = pytest.mark.django_db

XSS = "<script>window.hit=1</script><img/src=x/onerror=window.hit=1>\"'{{7+7}}{%now'Y'%}<svg/onload=hit()>"
BARE = XSS.replace(" ", "")


class Dangerous(HTMLParser):
    """Collects what a browser would run: scripts that are not files of ours, handlers, javascript: links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "script" and not given.get("src", "").startswith("/static/"):
            self.found.append(f"script {given}")
        self.found += [f"{tag} {name}" for name in given if name.startswith("on") or name in {"style", "srcdoc"}]
        self.found += [f"{tag} {value}" for value in given.values() if value.strip().lower().startswith("javascript:")]
        if tag in {"img", "iframe", "object", "embed"} and not given.get("src", "").startswith("/static/"):
            self.found.append(f"{tag} {given}")


def dangers(html: str) -> list[str]:
    parser = Dangerous()
    parser.feed(html)
    return parser.found


@pytest.fixture
def planted(db: None) -> dict[str, str]:
    """Plant the text in every field that a stranger can fill; return the pages that show them."""
    message = dead_letter(
        BARE,
        message_id=XSS,
        conversation_id=XSS,
        bookmark=XSS,
        headers={"X-Evil": XSS},
        content_type="text/html",
        payload={XSS: XSS, "list": [XSS]},
        dead_letter={
            "exception_class": XSS,
            "exception_message": XSS,
            "stack": f"{XSS}\n\tat com.example.Orders.apply(Orders.java:12)\n{XSS}",
            "reason": XSS,
            "original_address": f"orders.{BARE}",
        },
    )
    decisions.mark_fail([message.id], principal=SYSTEM, reason=XSS)
    pause(BARE, principal=SYSTEM, reason=XSS)
    source = Source.objects.create(name=XSS[:100], kind="directory", config={"path": XSS}, last_error=XSS)
    SourceFile.objects.create(source=source, path=XSS, size_bytes=1, modified_ns=1, error=XSS, state="broken")
    RejectedLine.objects.create(source=source, batch=XSS, line=1, code="invalid_json", detail=XSS, raw=XSS.encode())
    group = FailureGroup.objects.get()
    killer = waiting(BARE, message_id=f"killer {XSS}")
    among, _ = crashes.blacklist(
        killer.id, output=XSS.encode(), title=XSS, error_class=XSS[:200], error_message=XSS, exit_status=1
    )
    Node.objects.update(name=XSS[:100], host=XSS[:100])
    lost = crashes.take([waiting(BARE).id])
    crashes.lose(lost, Message.objects.latest("id").id)
    report(Report(source=BARE, bookmark=XSS, why=XSS, consumer=XSS[:100], crash_limit=1, fatal=True), principal=SYSTEM)
    Consumer.objects.create(
        name=XSS[:100], source=BARE, version=XSS[:100], host=XSS, pid=1, bookmark=XSS, reported_by=XSS
    )
    return {
        "crashed": "/triage/?state=NDLV&reason=blacklisted&group_by=crashes",
        "bystanders": f"/messages/{killer.id}/bystanders/1/",
        "killer": f"/messages/{killer.id}/",
        "nodes": "/nodes/?show=all",
        "lost nodes": "/nodes/?show=lost",
        "node": f"/nodes/{among.node_id}/",
        "poison list": "/poison-list/",
        "poison list of one": f"/poison-list/?source={quote(BARE, safe='')}",
        "overview": "/",
        "messages": "/triage/",
        "messages searched": f"/triage/?q={XSS.replace('#', '%23').replace('&', '%26')}",
        "messages by address": "/triage/?error=script",
        "message": f"/messages/{message.id}/",
        "message raw": f"/messages/{message.id}/?view=raw",
        "message hex": f"/messages/{message.id}/?view=hex",
        "messages by header": "/triage/?group_by=header.X-Evil",
        "groups": "/triage/?group_by=failure",
        "group": f"/groups/{group.id}/",
        "failures": "/triage/?group_by=failures",
        "addresses": "/addresses/",
        "policies": "/policies/?address=%3Cscript%3Ealert(1)%3C/script%3E",
        "sources": "/sources/",
        "source": f"/sources/{source.id}/",
        "rejected": f"/sources/{source.id}/rejected/",
        "audit": "/audit/",
        "missing": "/messages/%3Cscript%3E/",
        "unknown parameter": "/addresses/?%3Cscript%3Ehit()%3C/script%3E=1",
    }


def test_no_page_shows_planted_markup_as_markup(planted: dict[str, str], browser_of: Callable[[str], Client]) -> None:
    client = browser_of("admin")
    for name, path in planted.items():
        answer = client.get(path)
        text = answer.content.decode()
        assert answer.status_code < 500, name
        assert dangers(text) == [], name


def test_the_planted_text_is_shown_as_text(planted: dict[str, str], browser_of: Callable[[str], Client]) -> None:
    text = browser_of("admin").get(planted["message"]).content.decode()
    assert text.count("&lt;script&gt;window.hit=1&lt;/script&gt;") >= 10
    assert "{{7+7}}" in text


def test_templates_never_switch_escaping_off() -> None:
    from django.conf import settings

    for path in (settings.BASE_DIR / "templates").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "|safe" not in text, path
        assert "autoescape off" not in text, path
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style", text), path
        assert not re.search(r"<script(?![^>]*\s(?:src=|type=.application/json))", text), path
    # Documents of ours are let through, whose Markdown gives no HTML of theirs.
    for path in {*(settings.BASE_DIR / "poisonadmin").rglob("*.py")} - {Path(documentation.__file__)}:
        assert not re.search(r"mark_safe|SafeString|format_html", path.read_text(encoding="utf-8")), path


def test_every_page_carries_the_strict_policy(operator_browser: Client) -> None:
    policy = operator_browser.get("/").headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "style-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ("[" * 20_000, "nested deeper"),
        ('{"a": ' + "9" * 5000 + "}", "999999"),
        ('{"a": 1, "a": 2}', "2 members"),
        ('{"a": NaN, "b": Infinity}', "NaN"),
        ('"' + '\\"' * 50_000, "not JSON"),
        ('{"a": "\\ud800 \\u0000 \\u202e"}', "\\ud800 ␀ ⟨U+202E⟩"),
        ("\ufeff{}", "0 members"),
        ("just words", "just words"),
    ],
)
def test_odd_payloads_are_shown_within_bounds(operator_browser: Client, payload: str, shown: str) -> None:
    message = waiting(payload=payload, content_type="application/json")
    answer = operator_browser.get(reverse("messages-one", args=[message.id]))
    assert answer.status_code == 200
    assert shown in answer.content.decode()


def test_bytes_that_are_no_text_are_shown_in_hexadecimal(operator_browser: Client) -> None:
    message = waiting(payload_base64="/wAB/g==", payload=None)
    text = operator_browser.get(reverse("messages-one", args=[message.id])).content.decode()
    assert "ff 00 01 fe" in text


def test_a_large_payload_is_cut_on_the_page_and_whole_in_the_download(operator_browser: Client) -> None:
    payload = "é" * 200_001
    message = waiting(payload=payload)
    answer = operator_browser.get(reverse("messages-one", args=[message.id]))
    assert "Only the first 256 kB are shown" in answer.content.decode()
    assert len(answer.content) < 400_000
    download = operator_browser.get(reverse("messages-payload", args=[message.id]))
    assert download.content == payload.encode()
    assert download.headers["Content-Disposition"].startswith("attachment;")
    assert download.headers["Content-Type"] == "application/octet-stream"
    assert download.headers["X-Content-Type-Options"] == "nosniff"


def test_a_wide_payload_does_not_make_an_endless_page(operator_browser: Client) -> None:
    message = waiting(payload=list(range(20_000)))
    text = operator_browser.get(reverse("messages-one", args=[message.id])).content.decode()
    assert "The rest is left out" in text
    assert text.count("<details") == text.count("</details>")
