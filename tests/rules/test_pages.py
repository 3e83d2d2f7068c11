"""The pages of rules: the tables, one rule with its dry run, the form."""

import contextlib
import html
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.rules.commands import create_rule
from poisonadmin.rules.domain.fields import InvalidRule
from poisonadmin.rules.domain.rules import RuleFields
from poisonadmin.rules.pages.condition_formatter import bounds, condition_text, header_conditions, json_conditions
from poisonadmin.rules.pages.form import BeforeForm
from poisonadmin.rules.queries import get_rule
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.rule import Rule
from tests.fixtures.pages import dead_letter, html_of
from tests.rules.dry_runs import end_dry_run

pytestmark = pytest.mark.django_db

FILLED = {
    "name": "no negative amounts",
    "owner": "shop team",
    "note": "see the runbook",
    "ends_at": "2099-01-01T12:30",
    "address": "orders.#",
    "size": "1..1000",
    "headers": "X-Kind like push*\r\nX-Trace absent",
    "json": '$.amount outside 0..\r\n$.employee.id missing\r\n$.kind one_of ["a", 1]\r\n$.paid equals true',
    "violates": '{"required": ["id"]}',
    "do": "redirect",
    "do_address": "orders.odd",
    "do_tags": "odd, negative",
}
MATCH: dict[str, Any] = {
    "address": "orders.#",
    "size": {"min": 1, "max": 1000},
    "headers": [{"name": "X-Kind", "like": "push*"}, {"name": "X-Trace", "absent": True}],
    "json": [
        {"path": "$.amount", "outside": {"min": 0}},
        {"path": "$.employee.id", "missing": True},
        {"path": "$.kind", "one_of": ["a", 1]},
        {"path": "$.paid", "equals": True},
    ],
    "violates": {"required": ["id"]},
}


@pytest.fixture
def admin(browser_of: Callable[[str], Client]) -> Client:
    """Return the browser of an administrator."""
    return browser_of("admin")


def page_of(client: Client, name: str, *args: Any) -> str:
    answer = client.get(reverse(name, args=args))
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


def test_the_form_saves_what_is_filled_in_and_shows_it_again(admin: Client) -> None:
    assert "$.amount outside 0.." in page_of(admin, "rules-new")
    saved = admin.post(reverse("rules-new"), FILLED)
    assert saved.status_code == 302, saved.content.decode()
    rule = Rule.objects.get()
    assert rule.match == MATCH
    assert rule.action == {"do": "redirect", "address": "orders.odd", "tags": ["negative", "odd"]}
    assert (rule.owner, rule.stage, rule.is_enabled) == ("shop team", "before", False)
    assert rule.ends_at is not None
    assert rule.ends_at.isoformat() == "2099-01-01T12:30:00+00:00"

    shown_again = BeforeForm(row=get_rule(rule.id, principal=SYSTEM))
    again = BeforeForm({field.html_name: field.value() for field in shown_again})
    assert again.is_valid()
    assert again.rule() == RuleFields(
        name=rule.name, match=MATCH, action=rule.action, note=rule.note, owner=rule.owner, ends_at=rule.ends_at
    )
    shown = page_of(admin, "rules-edit", rule.id)
    assert '$.kind one_of ["a", 1]' in shown
    sent = {**FILLED, "version": "1", "note": "another"}
    assert admin.post(reverse("rules-edit", args=[rule.id]), sent).status_code == 302
    assert admin.post(reverse("rules-edit", args=[rule.id]), sent).status_code == 412, "it was read before that"
    assert Rule.objects.get().version == 2


def test_a_failure_rule_has_a_form_of_its_own(admin: Client) -> None:
    assert "Exception message" in page_of(admin, "rules-new-after")
    sent = {
        "name": "deadlocks", "exception_class": "Deadlock*", "status_code": "500..599", "failures": "..3",
        "tags": "a,b", "do": "retry", "do_delay_ms": "60000",
    }  # fmt: skip
    assert admin.post(reverse("rules-new-after"), sent).status_code == 302
    rule = Rule.objects.get()
    assert (rule.stage, rule.action) == ("after", {"do": "retry", "delay_ms": 60000})
    assert rule.match == {
        "exception_class": "Deadlock*", "status_code": {"min": 500, "max": 599}, "failures": {"max": 3},
        "tags": ["a", "b"],
    }  # fmt: skip
    assert "Deadlock*" in page_of(admin, "rules")


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("name", "", "This is required."),
        ("address", "orders..eu", "is not a pattern"),
        ("size", "many", "no range"),
        ("headers", "X-Kind is push", "no condition"),
        ("json", "amount > 4", "no condition"),
        ("json", "$.a one_of nothing", "no JSON value"),
        ("json", "$.a.. present", "Line 1: "),
        ("violates", "{", "JSON"),
        ("violates", '{"$ref": "http://example.com/"}', "leads out"),
        ("expires_within_ms", "soon", "such as 90s"),
        ("ends_at", "tomorrow", "ends_at"),
        ("do", "explode", "Must be one of reject,"),
        ("do_address", "#", "is not an address"),
    ],
)
def test_what_cannot_be_saved_is_shown_again_and_marked(admin: Client, field: str, text: str, said: str) -> None:
    answer = admin.post(reverse("rules-new"), FILLED | {field: text})
    assert answer.status_code == 422
    shown = html.unescape(answer.content.decode())
    assert said in shown
    assert "see the runbook" in shown
    assert "is-invalid" in shown
    assert f'id="{field}_error"' in shown
    assert "match." not in shown
    assert "action." not in shown
    assert not Rule.objects.exists()


def test_all_mistakes_of_a_rule_are_shown_at_once_and_a_taken_name_at_its_field(admin: Client) -> None:
    wrong = {"name": "", "address": "a..b", "size": "9..1", "json": "$.a.. present", "do_address": "#"}
    shown = admin.post(reverse("rules-new"), FILLED | wrong).content.decode()
    for field in wrong:
        assert f'id="{field}_error"' in shown, field
    made(name="taken")
    answer = admin.post(reverse("rules-new"), FILLED | {"name": "taken"})
    assert answer.status_code == 409
    assert 'id="name_error"' in answer.content.decode()
    assert Rule.objects.count() == 1


def test_a_rule_s_form_without_a_version_changes_nothing(admin: Client) -> None:
    rule = made()
    answer = admin.post(reverse("rules-edit", args=[rule.id]), FILLED)
    assert answer.status_code == 412
    assert Rule.objects.get().version == 1


def made(**fields: Any) -> Rule:
    return create_rule(
        "before", RuleFields(**({"name": "r", "match": MATCH, "action": {"do": "reject"}} | fields)), principal=SYSTEM
    )


def test_a_rule_is_switched_on_after_a_dry_run_or_by_saying_so(admin: Client) -> None:
    rule = made()
    enable = reverse("rules-enable", args=[rule.id])
    assert admin.post(enable, {"reason": " "}).status_code == 422
    refused = admin.post(enable, {"reason": "now"})
    assert refused.status_code == 409
    assert "has not been dry-run" in refused.content.decode()
    assert admin.post(enable, {"reason": "urgent", "without_dry_run": "true"}).status_code == 302
    assert Rule.objects.get().is_enabled
    assert Audit.objects.get(action="rule.enabled").details["without_dry_run"] is True
    assert admin.post(reverse("rules-disable", args=[rule.id]), {"reason": "enough"}).status_code == 302
    assert not Rule.objects.get().is_enabled
    assert admin.post(reverse("rules-delete", args=[rule.id])).status_code == 302
    assert not Rule.objects.exists()


def test_what_a_dry_run_has_found_is_shown_with_samples(admin: Client) -> None:
    message = dead_letter("orders.eu")
    rule = made()
    assert "There was no dry run yet" in page_of(admin, "rules-one", rule.id)
    assert admin.post(reverse("rules-dry_run", args=[rule.id])).status_code == 302
    assert ">queued<" in page_of(admin, "rules-one", rule.id)
    found = [{"address": "orders.eu", "group_id": message.group_id, "matched": 1234, "samples": [message.id]}]
    end_dry_run(read=5000, matched=1234, found=found)
    shown = page_of(admin, "rules-one", rule.id)
    for text in ("1,234", "5,000", reverse("messages-one", args=[message.id]), "Boom"):
        assert text in shown


def test_the_whole_page_is_drawn_anew_when_a_dry_run_has_ended(admin: Client) -> None:
    rule = made()
    page, htmx = reverse("rules-one", args=[rule.id]), {"HX-Request": "true"}
    admin.post(reverse("rules-dry_run", args=[rule.id]))
    running = admin.get(page, headers=htmx)
    assert "HX-Retarget" not in running
    assert "disabled" in html_of(running)
    end_dry_run(read=13, matched=1)
    Rule.objects.update(checked_version=1)
    ended = admin.get(page, headers=htmx)
    assert (ended["HX-Retarget"], ended["HX-Reselect"]) == ("#content", "#content")
    text = html_of(ended)
    assert "The dry run has ended." in text
    assert "Without a dry run" not in text
    assert " disabled>" not in text
    assert "<strong>1</strong> of 13 messages on addresses that fit <code>orders.#</code>" in text


def test_rules_are_put_in_order_and_say_when_they_switched_themselves_off(admin: Client) -> None:
    first, second = made(name="first"), made(name="second")
    Rule.objects.filter(id=first.id).update(fault="it took 3.0 s for one message")
    assert admin.post(reverse("rules-move", args=[second.id]), {"position": "1"}).status_code == 302
    shown = page_of(admin, "rules")
    assert shown.index("second") < shown.index("first")
    assert "switched itself off" in shown
    assert "it took 3.0 s" in page_of(admin, "rules-one", first.id)
    assert admin.post(reverse("rules-move", args=[second.id]), {"position": "x"}).status_code == 400


def test_a_hostile_text_is_shown_as_text(admin: Client) -> None:
    evil = "<script>alert(1)</script>"
    rule = made(name=evil, note=evil, owner=evil, match={"content_type": evil, "json": [{"path": "$.a", "like": evil}]})
    for name, args in (("rules", []), ("rules-one", [rule.id]), ("rules-edit", [rule.id])):
        assert evil not in admin.get(reverse(name, args=args)).content.decode()


@pytest.mark.parametrize(
    "line",
    [
        "$.a present", "$['a b'].c absent", '$.a equals "x y"', "$.a equals null", "$.a like a b*", "$.n within 1..2.5",
        "$.n outside -5..", '$.a one_of ["x", 1, true]',
    ],
)  # fmt: skip
def test_a_line_is_read_as_it_is_written(line: str) -> None:
    assert [condition_text(one) for one in json_conditions(line)] == [line]


def test_lines_may_be_blank_and_texts_without_quotes() -> None:
    assert json_conditions("\n  $.a equals push me \n\n") == [{"path": "$.a", "equals": "push me"}]
    assert header_conditions("X-A present\n") == [{"name": "X-A", "present": True}]
    assert bounds("f", " 1 .. ") == {"min": 1}
    with pytest.raises(InvalidRule):
        json_conditions("$.a present 4")
    with pytest.raises(InvalidRule):
        json_conditions("$.a one_of " + "[" * 100_000)
    assert json.dumps(json_conditions("$.a within 1..")) == '[{"path": "$.a", "within": {"min": 1}}]'


LONG = 1_000_000
HOSTILE = [
    lambda: json_conditions("$" + " " * LONG + "x"),
    lambda: json_conditions("$" + " \t" * (LONG // 2) + "presen"),
    lambda: json_conditions("$" + " present" * (LONG // 8)),
    lambda: json_conditions("$.a within " + " " * LONG + "x"),
    lambda: json_conditions("$.a outside " + "." * LONG + "x"),
    lambda: header_conditions("X" + " " * LONG + "x"),
    lambda: header_conditions("X" * LONG + " presents"),
    lambda: bounds("match.size", " " * LONG + "x"),
    lambda: bounds("match.size", "." * LONG + "x"),
    lambda: bounds("match.size", "1" * LONG),
    lambda: bounds("match.size", "-" * LONG + ".." + "e" * LONG),
]


@pytest.mark.parametrize("read", HOSTILE)
def test_a_long_line_takes_no_longer_than_its_length(read: Callable[[], Any]) -> None:
    began = time.process_time()
    with contextlib.suppress(InvalidRule):
        read()
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("text", ["nan", "inf..", "1_0", "..0x1", "٣", "1e5..x", "--1"])
def test_a_range_is_of_plain_numbers(text: str) -> None:
    with pytest.raises(InvalidRule):
        bounds("match.size", text)


@pytest.mark.parametrize("line", ["X Y present", "present", "X-A presents", "X-A", " like x"])
def test_a_line_that_tests_no_header_is_refused(line: str) -> None:
    with pytest.raises(InvalidRule):
        header_conditions(line)
