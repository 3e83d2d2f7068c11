"""Searches in the API."""

import pytest

from poisonadmin.core.domain.access import Permission, Role
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import Caller, make_user
from tests.fixtures.delivery import enqueue
from tests.searches.plain import PLAIN, search_due

pytestmark = pytest.mark.django_db


def test_a_search_is_asked_for_and_ends_with_a_selection(operator: Caller, outsider: Caller) -> None:
    (found, *_), _ = enqueue(payload={"customer": "77"}), enqueue(payload={"customer": "78"})
    answer = operator.post("searches/", {"q": "payload.$.customer:77", "filter": {"state": "TBDL"}})
    begun = answer.json()
    assert answer.status_code == 202
    assert answer["Location"].endswith(f"/api/v1/searches/{begun['id']}/")
    assert (begun["state"], begun["done"], begun["total"]) == ("queued", 0, None)
    assert (begun["result"]["hits"], begun["result"]["selection"]) == (0, None)
    search_due(PLAIN)
    ended = operator.get(f"searches/{begun['id']}/").json()
    result = ended["result"]
    assert (ended["state"], ended["done"], ended["total"]) == ("succeeded", 1, 1)
    assert (result["hits"], result["archived_hits"]) == (1, 0)
    assert [(one["id"], one["archived"]) for one in result["first"]] == [(str(found), False)]
    assert operator.get(f"selections/{result['selection']}/").json()["count"] == 1
    listed = operator.get(f"searches/{begun['id']}/messages/").json()["results"]
    assert [one["id"] for one in listed] == [str(found)]
    assert outsider.get(f"searches/{begun['id']}/").status_code == 404


def test_hits_in_payloads_are_shown_to_who_may_read_payloads(operator: Caller) -> None:
    enqueue(payload={"customer": "77"})
    begun = operator.post("searches/", {"q": "payload.$.customer:77"}).json()
    search_due(PLAIN)
    selection = operator.get(f"searches/{begun['id']}/").json()["result"]["selection"]
    reader = Caller(
        create_token(make_user("reader", Role.VIEWER, []), "test", scopes=[Permission.READ], by="test").text
    )
    for path in ("", "messages/", "preview/?action=fail"):
        refused = reader.get(f"selections/{selection}/{path}")
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed"), path
        assert operator.get(f"selections/{selection}/{path}").status_code == 200, path


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"q": "state:NDLV"}, "invalid_parameter"),
        ({"q": "payload.$.a:>x"}, "invalid_parameter"),
        ({"q": "payload:x", "filter": {"colour": "red"}}, "unknown_parameter"),
    ],
)
def test_what_cannot_be_searched_is_refused(operator: Caller, body: object, code: str) -> None:
    answer = operator.post("searches/", body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_one_cancels_ones_own(viewer: Caller, operator: Caller) -> None:
    search = operator.post("searches/", {"q": "payload:x"}).json()["id"]
    assert viewer.post(f"searches/{search}/cancel/").status_code == 403
    assert operator.post(f"searches/{search}/cancel/").json()["state"] == "cancelled"
    assert operator.post(f"searches/{search}/cancel/").json()["code"] == "run_ended"


def test_a_list_says_how_payloads_are_searched(operator: Caller) -> None:
    answer = operator.get("messages/?q=payload:x").json()
    assert answer["code"] == "needs_search"
    assert "/api/v1/searches/" in answer["detail"]
