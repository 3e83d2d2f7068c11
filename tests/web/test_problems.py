"""Whatever is wrong with a request, the answer is a problem that says so."""

from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client

from poisonadmin.desk.api import messages
from poisonadmin.intake.commands import accept
from tests.fixtures.api import Caller, take, take_dead

PROBLEM = "application/problem+json"
ENVELOPE = {"address": "orders.eu", "payload": "x"}
WHY = {"reason": "because"}


def problem_of(answer: Any, status: int) -> dict[str, Any]:
    """Return the problem in an answer of this status."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == PROBLEM
    found: dict[str, Any] = answer.json()
    assert found["type"] == f"urn:poisonadmin:problem:{found['code']}"
    assert found["status"] == status
    assert found["instance"].startswith("/api/v1/")
    assert found["detail"]
    assert found["request_id"] == answer["X-Request-ID"]
    return found


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("messages/?stat=NDLV", "unknown_parameter"),
        ("messages/?state=NDVL", "invalid_parameter"),
        ("messages/?state=", "invalid_parameter"),
        ("messages/?limit=0", "invalid_parameter"),
        ("messages/?limit=501", "invalid_parameter"),
        ("messages/?limit=ten", "invalid_parameter"),
        ("messages/?limit=1&limit=2", "invalid_parameter"),
        ("messages/?ordering=payload", "invalid_parameter"),
        ("messages/?cursor=nonsense", "invalid_cursor"),
        ("messages/?cursor=WzAsICJ4Il0", "invalid_cursor"),
        ("messages/?cursor=WzAsIDk5OTk5OTk5OTk5OTk5OTk5OTk5OV0", "invalid_cursor"),
        ("messages/?key.=7", "unknown_parameter"),
        ("messages/?header.=7", "unknown_parameter"),
        ("messages/?group=99999999999999999999", "invalid_parameter"),
        ("messages/?received_after=yesterday", "invalid_parameter"),
        ("messages/?received_after=2026-01-01T00:00:00", "invalid_parameter"),
        ("messages/?received_after=0001-01-01T00:00:00%2B14:00", "invalid_parameter"),
        ("messages/?q=colour:red", "invalid_parameter"),
        ("messages/?q=%22open", "invalid_parameter"),
        ("messages/?q=%00", "invalid_parameter"),
        ("messages/?message_id=%00", "invalid_parameter"),
        ("messages/?address=orders..eu", "invalid_parameter"),
        ("messages/?format=xml", "unknown_parameter"),
        ("failures/?since=1", "unknown_parameter"),
        ("groups/?limit=-1", "invalid_parameter"),
        ("jobs/?kind=none", "invalid_parameter"),
        ("nodes/?alive=maybe", "invalid_parameter"),
        ("audit/?actor=%00", "invalid_parameter"),
        ("stats/?x=1", "unknown_parameter"),
        ("policies/resolve/", "invalid_parameter"),
        ("policies/resolve/?address=orders.%23", "invalid_address"),
        ("addresses/?status=off", "invalid_parameter"),
    ],
)
def test_a_query_that_means_nothing_is_refused(path: str, code: str, admin: Caller) -> None:
    assert problem_of(admin.get(path), 400)["code"] == code


def test_a_request_for_another_host_is_refused_as_a_problem(admin: Caller) -> None:
    assert problem_of(admin.get("messages/", Host="elsewhere.example"), 400)["code"] == "bad_request"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b" ", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"\xff", 400, "invalid_utf8"),
        (b"[" * 20_000, 400, "nesting_too_deep"),
        (b"[]", 400, "not_an_object"),
        (b'{"address": "a", "address": "b", "payload": 1}', 400, "duplicate_key"),
        (b'{"address": "a", "payload": NaN}', 400, "invalid_number"),
        (b'{"payload": "x"}', 400, "missing_field"),
        (b'{"address": "a"}', 400, "missing_field"),
        (b'{"address": "a", "payload": "x", "colour": 1}', 400, "unknown_field"),
        (b'{"address": "a..b", "payload": "x"}', 400, "invalid_address"),
        (b'{"address": "a\\u0000", "payload": "x"}', 400, "invalid_address"),
        (b'{"address": "a", "payload": "x", "message_id": "\\u0000"}', 400, "invalid_message_id"),
        (b'{"address": "a", "payload": "x", "headers": {"h": "\\u0000"}}', 400, "invalid_headers"),
        (b'{"address": "a", "payload": "\\ud800"}', 400, "invalid_unicode"),
        (b'{"address": "a", "payload_base64": "?"}', 400, "invalid_base64"),
        (b'{"address": "a", "payload": "x", "expires_at": "soon"}', 400, "invalid_time"),
    ],
)
def test_a_message_that_is_none_is_refused(body: bytes, status: int, code: str, admin: Caller) -> None:
    assert problem_of(admin.post("messages/", body), status)["code"] == code


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"reason"}),
        ({"reason": ""}, {"reason"}),
        ({"reason": 7}, {"reason"}),
        ({"reason": None}, {"reason"}),
        ({"reason": "x" * 2001}, {"reason"}),
        ({"reason": "x", "force": True}, {"force"}),
    ],
)
def test_a_decision_without_a_proper_reason_names_the_field(body: Any, fields: set[str], admin: Caller) -> None:
    message_id = take_dead()
    found = problem_of(admin.post(f"messages/{message_id}/fail/", body), 400)
    assert (found["code"], {error["field"] for error in found["errors"]}) == ("invalid_request", fields)


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"7", b"null"])
def test_a_body_that_is_no_object_is_refused(body: bytes, admin: Caller) -> None:
    problem_of(admin.post(f"messages/{take_dead()}/fail/", body), 400)


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800"])
def test_a_text_that_cannot_be_stored_is_refused_in_any_depth(text: str, admin: Caller) -> None:
    for path, body, where in (
        ("policies/", f'{{"match": "a", "settings": {{"x": ["{text}"]}}}}', "settings.x.0"),
        ("destinations/", f'{{"name": "n", "kind": "http", "config": {{"{text}": 1}}}}', "config"),
        (f"messages/{take_dead()}/fail/", f'{{"reason": "{text}"}}', "reason"),
        (f"messages/{take_dead()}/fail/", f'"{text}"', "The body"),
    ):
        found = problem_of(admin.post(path, body.encode()), 400)
        assert (found["code"], found["detail"].partition(" holds ")[0]) == ("invalid_unicode", where)


@pytest.mark.parametrize("method", ["PATCH", "OPTIONS", "DELETE", "TRACE", "BREW"])
def test_a_method_that_a_path_does_not_have_is_named(method: str, admin: Caller) -> None:
    answer = admin.ask(method, "messages/")
    assert problem_of(answer, 405)["code"] == "method_not_allowed"
    assert set(answer["Allow"].split(", ")) >= {"GET", "POST"}


def test_only_json_is_offered(admin: Caller) -> None:
    assert problem_of(admin.get("messages/", Accept="text/html"), 406)["code"] == "not_acceptable"
    assert admin.get("messages/", Accept="text/html, application/json;q=0.5").status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
def test_only_json_is_taken(kind: str, admin: Caller) -> None:
    for path in ("messages/", f"messages/{take_dead()}/fail/", "messages/batch/"):
        assert problem_of(admin.post(path, b"{}", Content_Type=kind), 415)["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    "path", ["nothing/", "messages", "messages/x/", "messages/99999999999999999999/", "messages/9223372036854775808/"]
)
def test_a_path_that_leads_nowhere_is_a_problem_too(path: str, admin: Caller) -> None:
    assert problem_of(admin.get(path), 404)["code"] == "not_found"
    assert problem_of(admin.post(path), 404)["code"] == "not_found"


@pytest.mark.parametrize("path", ["addresses/a%00b/", "destinations/%00/", "addresses/a%00b/pause/", "addresses/%FF/"])
def test_a_name_that_cannot_be_is_not_found(path: str, admin: Caller) -> None:
    answer = admin.post(path, WHY) if path.endswith("pause/") else admin.get(path)
    assert problem_of(answer, 404)["code"] == "not_found"


def test_a_query_that_is_no_utf_8_is_refused(admin: Caller, operator_browser: Client) -> None:
    assert problem_of(admin.get("messages/?q=%FF"), 400)["code"] == "bad_request"
    assert operator_browser.get("/triage/?q=%C3%28").status_code == 400
    assert operator_browser.get("/triage/?q=%C3%A9").status_code == 200


def test_an_illegal_decision_says_which_state_the_message_is_in(admin: Caller, orders_destination: None) -> None:
    found = problem_of(admin.post(f"messages/{take()}/approve/", WHY), 409)
    assert (found["code"], found["state"]) == ("transition_not_allowed", "TBDL")


def test_a_message_without_a_destination_cannot_be_approved(admin: Caller) -> None:
    assert problem_of(admin.post(f"messages/{take_dead()}/approve/", WHY), 409)["code"] == "no_destination"


def test_the_same_id_with_another_body_is_a_conflict(admin: Caller) -> None:
    first = admin.post("messages/", {**ENVELOPE, "message_id": "1"})
    again = admin.post("messages/", {**ENVELOPE, "message_id": "1"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = admin.post("messages/", {**ENVELOPE, "message_id": "1", "payload": "y"})
    assert problem_of(other, 409)["code"] == "message_id_conflict"


@pytest.mark.parametrize("credentials", ["Bearer pa_unknown", "Bearer", "Bearer pa_é", "Bearer xyz"])
def test_a_token_that_is_none_is_a_401_that_says_how(credentials: str, db: None) -> None:
    answer = Caller(None).get("messages/", Authorization=credentials)
    assert problem_of(answer, 401)["code"] == "authentication_failed"
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_database_that_is_gone_is_a_503(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(messages, "list_messages", gone)
    answer = admin.get("messages/")
    assert problem_of(answer, 503)["code"] == "unavailable"
    assert answer["Retry-After"]


def test_what_nobody_foresaw_is_a_500_without_its_secrets(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(accept, "accept", broken)
    answer = admin.post("messages/", ENVELOPE)
    assert problem_of(answer, 500)["code"] == "internal_error"
    assert b"hunter2" not in answer.content


def test_a_database_that_takes_no_writes_is_read_all_the_same(admin: Caller) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE api_token SET last_used_at = NULL")
        cursor.execute("SET TRANSACTION READ ONLY")
        assert admin.get("messages/").status_code == 200
        assert problem_of(admin.post("messages/", ENVELOPE), 503)["code"] == "read_only"
        transaction.set_rollback(True)  # which also ends the read-only mode


def test_a_session_takes_messages_in_one_by_one_and_as_a_stream(
    operator_browser: Client, orders_destination: None
) -> None:
    """As the API's own page does: its CSRF token is in a header, and the body is nobody's but the endpoint's."""
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = operator_browser.cookies
    browser.get("/")
    token = {"x-csrftoken": browser.cookies["csrftoken"].value}
    line = b'{"address": "orders.eu", "payload": "x"}\n'
    one = browser.post("/api/v1/messages/", line, content_type="application/json", headers=token)
    many = browser.post("/api/v1/messages/batch/", line, content_type="application/x-ndjson", headers=token)
    without = browser.post("/api/v1/messages/", line, content_type="application/json")
    assert (one.status_code, many.status_code, without.status_code) == (201, 202, 403)
    assert without.json()["code"] == "csrf_failed"
