"""Lists by keyset: nothing twice, nothing left out, whatever arrives meanwhile."""

from typing import Any

import pytest

from tests.fixtures.api import Caller, take, take_dead


def walk(caller: Caller, link: str, direction: str = "next", between: Any = None) -> list[str]:
    """Follow the links and return the ids in the order they come."""
    found: list[str] = []
    while link:
        page = caller.get(link.removeprefix("http://testserver")).json()
        found += [row["id"] for row in page["results"]]
        link = page[direction]
        if between:
            between()
    return found


@pytest.mark.parametrize("ordering", ["id", "-id"])
def test_following_next_shows_every_message_once(ordering: str, admin: Caller) -> None:
    ids = [str(take(f"orders.a{n % 3}")) for n in range(25)]
    found = walk(admin, f"/api/v1/messages/?limit=4&ordering={ordering}")
    assert found == (ids if ordering == "id" else ids[::-1])


def test_what_arrives_meanwhile_disturbs_nothing(admin: Caller) -> None:
    ids = [str(take()) for _ in range(12)]
    found = walk(admin, "/api/v1/messages/?limit=5", between=take)
    assert found == ids[::-1]
    rising = walk(admin, "/api/v1/messages/?limit=5&ordering=id&address=orders.eu")
    assert rising[:12] == ids
    assert len(rising) == len(set(rising)) == 15


def test_the_way_back_is_the_way_there(admin: Caller) -> None:
    ids = [str(take()) for _ in range(10)][::-1]
    first = admin.get("messages/?limit=4").json()
    second = admin.get(first["next"].removeprefix("http://testserver")).json()
    back = admin.get(second["previous"].removeprefix("http://testserver")).json()
    assert (first["previous"], [row["id"] for row in back["results"]]) == (None, ids[:4])
    assert back["previous"] is None
    assert back["next"] == first["next"]


def test_a_page_holds_at_most_as_many_as_asked_for(admin: Caller) -> None:
    for _ in range(3):
        take()
    assert [len(admin.get(f"messages/?limit={n}").json()["results"]) for n in (1, 3, 500)] == [1, 3, 3]
    exact = admin.get("messages/?limit=3").json()
    assert exact["next"] is None


def test_links_keep_the_filter(admin: Caller) -> None:
    dead = [str(take_dead()) for _ in range(3)]
    take()
    found = walk(admin, "/api/v1/messages/?limit=1&state=NDLV&state=FAIL&q=address:orders.*")
    assert found == dead[::-1]


def test_several_states_come_in_one_order(admin: Caller) -> None:
    ids = [str(take_dead() if n % 2 else take()) for n in range(6)]
    assert walk(admin, "/api/v1/messages/?limit=2&state=NDLV&state=TBDL&state=FAIL") == ids[::-1]


@pytest.mark.parametrize(
    "path", ["failures/", "groups/", "addresses/", "destinations/", "sources/", "jobs/", "nodes/", "audit/"]
)
def test_every_list_is_paged_and_says_so(path: str, one_of_each: dict[str, Any], admin: Caller) -> None:
    whole = admin.get(path).json()
    assert set(whole) == {"results", "next", "previous", "count", "count_is_exact"}
    assert (whole["count"], whole["count_is_exact"]) == (len(whole["results"]), True)
    seen = []
    link = f"/api/v1/{path}?limit=1"
    while link:
        page = admin.get(link.removeprefix("http://testserver")).json()
        seen += page["results"]
        assert page["count"] == whole["count"]
        link = page["next"]
    assert seen == whole["results"]


def test_the_logs_of_a_message_are_paged(admin: Caller, orders_destination: None) -> None:
    message_id = take_dead()
    admin.post(f"messages/{message_id}/fail/", {"reason": "r"})
    admin.post(f"messages/{message_id}/restore/", {"reason": "r"})
    events = []
    link = f"/api/v1/messages/{message_id}/history/?limit=1"
    while link:
        page = admin.get(link.removeprefix("http://testserver")).json()
        events += [row["event"] for row in page["results"]]
        link = page["next"]
    assert events == ["restored", "marked_fail", "imported"]
