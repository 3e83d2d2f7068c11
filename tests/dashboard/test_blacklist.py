"""The blacklist page: what crashed, how and on which node; who was there and was cleared; what approving risks."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.db import connection
from django.test import Client

from poisonadmin.domain.access import SYSTEM, Role, principal
from poisonadmin.operations import configure, decide
from poisonadmin.queries import blacklist as queries
from poisonadmin.store.models import Message
from tests import crashes
from tests.dashboard.conftest import waiting

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("delivering")]

HTMX = {"HX-Request": "true"}


def rows(html: str) -> list[int]:
    return [int(found) for found in re.findall(r'<tr id="m-(\d+)"', html)]


def some(count: int, address: str = "orders.eu") -> list[int]:
    return [waiting(address).id for _ in range(count)]


def blacklisted(address: str = "orders.eu", bystanders: int = 0, **columns: object) -> int:
    first, *others = some(1 + bystanders, address)
    crashes.blacklist(first, *others, **columns)
    return first


def text_of(client: Client, path: str = "/blacklist/") -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def test_a_blacklisted_message_shows_both_crashes_with_node_signal_and_output(operator: Client) -> None:
    message_id = blacklisted(bystanders=3, output=b"line one\nlast words")
    text = text_of(operator)
    assert rows(text) == [message_id]
    assert text.count("SIGSEGV</span>") == 2
    assert "worker-1/4711" in text
    assert "worker-1/4712" in text
    assert text.count("last words") == 2
    assert "HandlerSegfault in labels:render" in text
    assert "2 crashes, 2 tries" in text
    assert "<title>Blacklist: 1 ·" in text


@pytest.mark.parametrize(
    ("columns", "tag"),
    [
        ({"exit_status": -6, "error_class": "HandlerAborted"}, "SIGABRT"),
        ({"exit_status": -9, "error_class": "HandlerKilled"}, "SIGKILL"),
        ({"exit_status": 3, "error_class": "HandlerExited"}, "exit code 3"),
        ({"exit_status": 0, "error_class": "HandlerExited"}, "exit code 0"),
        ({"exit_status": None, "error_class": "HandlerExited"}, "ended itself"),
        ({"exit_status": None, "error_class": "HandlerOutOfMemory"}, "memory limit"),
        ({"exit_status": -9, "error_class": "HandlerTimeLimit"}, "time limit"),
        ({"exit_status": -24, "error_class": "HandlerCpuLimit"}, "CPU limit"),
        ({"exit_status": None, "error_class": "ConsumerConnectionLost"}, "connection lost"),
        ({"exit_status": None, "error_class": "HandlerDied"}, "died"),
    ],
)
def test_every_way_to_die_is_named(operator: Client, columns: dict[str, object], tag: str) -> None:
    blacklisted(**columns)
    assert f">{tag}</span>" in text_of(operator)


def test_bystanders_are_counted_by_what_became_of_them_and_listed(operator: Client) -> None:
    killer, *others = some(6)
    together = crashes.take([killer, *others])
    crashes.crash(together, killer)
    crashes.deliver(together, *others[:4])
    alone = crashes.take([killer], alone=True)
    crashes.crash(alone, killer)
    text = text_of(operator)
    assert "4 of 5 bystanders delivered" in text
    assert ">alone</span>" in text
    link = re.search(r'href="(/blacklist/\d+/bystanders/1/)"', text)
    assert link is not None
    listed = text_of(operator, link[1])
    assert sorted(rows(listed)) == sorted(others)
    assert sorted(rows(text_of(operator, f"{link[1]}?state=DLVD"))) == sorted(others[:4])
    assert "None of these" in text_of(operator, f"{link[1]}?state=FAIL")


def test_a_crash_alone_has_no_bystanders(operator: Client) -> None:
    message_id = blacklisted()
    assert "It was delivered alone" in text_of(operator, f"/blacklist/{message_id}/bystanders/2/")
    assert operator.get(f"/blacklist/{message_id}/bystanders/7/").status_code == 404


def test_candidates_have_a_list_of_their_own_until_they_are_delivered(operator: Client) -> None:
    killer, other = some(2)
    together = crashes.take([killer, other])
    crashes.crash(together, killer)
    crashes.lose(together, other)
    text = text_of(operator, "/blacklist/")
    assert rows(text) == []
    assert f'id="candidate-{killer}"' in text
    assert f'id="candidate-{other}"' in text
    assert ">node lost</span>" in text
    alone = crashes.take([killer], alone=True)
    part = operator.get("/blacklist/?part=candidates", headers=HTMX).content.decode()
    assert "being delivered, alone" in part
    assert "<html" not in part
    crashes.deliver(alone, killer)
    assert f'id="candidate-{killer}"' not in text_of(operator)


def test_the_latest_comes_first_and_pages_go_on_by_keyset(operator: Client) -> None:
    made = [blacklisted() for _ in range(4)]
    Message.objects.filter(id=made[0]).update(state_at="2036-01-01T00:00:00Z")
    order = [made[0], *made[:0:-1]]
    found = queries.list_blacklisted(principal=SYSTEM, limit=3)
    assert [row.message.id for row in found.results] == order[:3]
    rest = queries.list_blacklisted(principal=SYSTEM, limit=3, cursor=found.next)
    assert [row.message.id for row in rest.results] == order[3:]
    assert rows(text_of(operator)) == order


def test_the_address_in_the_url_narrows_everything(operator: Client) -> None:
    eu, us = blacklisted("orders.eu"), blacklisted("orders.us")
    assert rows(text_of(operator, "/blacklist/?address=orders.us")) == [us]
    assert sorted(rows(text_of(operator, "/blacklist/?address=orders.%23"))) == sorted([eu, us])
    assert "Nothing matches" in text_of(operator, "/blacklist/?address=elsewhere")
    assert operator.get("/blacklist/?address=a..b").status_code == 400
    assert operator.get("/blacklist/?adress=orders.us").status_code == 400


def test_an_empty_blacklist_says_why(operator: Client, browser_of: Callable[[str], Client]) -> None:
    assert "Nothing has ever crashed" in text_of(operator)
    first, second = blacklisted(), blacklisted()
    assert "Nothing that you may see" in text_of(browser_of("outsider"))
    decide.approve([first], principal=SYSTEM, reason="repaired")
    decide.mark_fail([second], principal=SYSTEM, reason="nobody waits")
    text = text_of(operator)
    assert "All clear" in text
    assert "2 blacklisted messages were decided on in the last 30 days" in text


def test_what_was_decided_for_another_reason_is_not_counted(operator: Client) -> None:
    crashes.crash(crashes.take([some(1)[0]]), Message.objects.latest("id").id)
    other = some(1)[0]
    decide.quarantine([other], principal=SYSTEM, reason="r")
    decide.approve([other], principal=SYSTEM, reason="r")
    assert queries.count_decided(SYSTEM).n == 0


@pytest.mark.parametrize(
    ("policy", "warning"),
    [
        ({}, "1 crashed what processed it before: delivered alone, one more crash blacklists it again."),
        (
            {"approve_clears_candidate": True},
            "1 crashed what processed it before. The policy forgets that on approval: 2 crashes blacklist it again.",
        ),
        ({"crash_limit": 4}, "1 crashed what processed it before: delivered alone, 2 more crashes blacklist it."),
        ({"crashes_to_list": 3}, "delivered alone, one more crash puts it on the poison list."),
        ({"blame": "all_in_flight"}, "delivered among others, one more crash blacklists it again."),
        ({"blacklisting_enabled": False}, "The policy has blacklisting switched off"),
        ({"blacklisting_enabled": False, "crashes_to_list": 1}, "one more crash puts it on the poison list."),
    ],
)
def test_approving_warns_of_what_one_more_crash_does(operator: Client, policy: dict[str, object], warning: str) -> None:
    message_id = blacklisted()
    configure.save_policy("orders.eu", preset=None, settings=policy, destination=None, principal=SYSTEM)
    asked = operator.post("/messages/decide/approve/", {"id": [message_id], "origin": "blacklist"})
    assert warning in unescape(asked.content.decode())
    failed = operator.post("/messages/decide/fail/", {"id": [message_id], "origin": "blacklist"})
    assert "crashed what processed" not in failed.content.decode()


def test_a_decision_answers_with_rows_of_the_blacklist(operator: Client) -> None:
    kept, gone = blacklisted(), blacklisted()
    answer = operator.post(
        "/messages/decide/fail/now/", {"id": [gone], "reason": "r", "origin": "blacklist"}, headers=HTMX
    )
    text = answer.content.decode()
    assert f'<tr id="m-{gone}" data-row class="changed" hx-swap-oob="true"' in text
    assert 'class="crashes"' in text
    assert "Failed (FAIL)" in text
    assert rows(text_of(operator)) == [kept]
    plain = operator.post("/messages/decide/fail/now/", {"id": [kept], "reason": "r", "origin": "blacklist"})
    assert plain.headers["Location"] == "/blacklist/"


def test_what_was_blacklisted_since_is_announced(operator: Client) -> None:
    first = blacklisted()
    text = text_of(operator)
    ask = re.search(r'hx-get="(/blacklist/newer/[^"]+)"', text)
    assert ask is not None
    assert operator.get(ask[1], headers=HTMX).content.strip() == b""
    second = blacklisted()
    # One transaction is one moment: the rows of a test would all be from the same.
    Message.objects.filter(id=second).update(state_at="2036-01-01T00:00:00Z")
    assert b"1 new" in operator.get(ask[1], headers=HTMX).content
    assert rows(text_of(operator)) == [second, first]


def test_the_overview_says_how_many_are_blacklisted_and_under_suspicion(operator: Client) -> None:
    blacklisted()
    crashes.crash(crashes.take([some(1)[0]]), Message.objects.latest("id").id)
    tile = re.search(r'id="tile-blacklist".*?</a>', text_of(operator, "/"), re.DOTALL)
    assert tile is not None
    assert '<span class="figure">1</span>' in tile[0]
    assert "1 candidate under way" in tile[0]


def test_a_limited_account_sees_its_own_addresses_and_counts_no_others(browser_of: Callable[[str], Client]) -> None:
    mine, *strangers = [*some(1, "elsewhere.mine"), *some(3)]
    crashes.blacklist(mine, *strangers)
    theirs = blacklisted("orders.eu")
    client = browser_of("outsider")
    text = text_of(client)
    assert rows(text) == [mine]
    assert "orders" not in text.replace("orders.#", "").replace("orders.*", "")
    assert "bystanders delivered" not in text
    assert client.get(f"/blacklist/{theirs}/bystanders/1/").status_code == 404
    assert rows(text_of(client, f"/blacklist/{mine}/bystanders/1/")) == []


def test_the_message_page_tells_how_it_died_and_how_it_was_cleared(operator: Client) -> None:
    killer, other = some(2)
    together = crashes.take([killer, other])
    crashes.crash(together, killer, output=b"<b>last words</b>")
    crashes.lose(together, other)
    text = text_of(operator, f"/messages/{killer}/")
    assert "Its sandbox was killed by SIGSEGV" in text
    assert "A candidate from now on" in text
    assert "one more crash blacklists it" in text
    assert '<pre class="wild" tabindex="0"><b>last words</b>' in text  # unescaped by text_of
    assert "<b>last words" not in operator.get(f"/messages/{killer}/").content.decode()
    assert "The node was lost while it was being delivered" in text_of(operator, f"/messages/{other}/")
    assert "(lost)" in text_of(operator, f"/messages/{other}/")
    alone = crashes.take([killer], alone=True)
    crashes.deliver(alone, killer)
    text = text_of(operator, f"/messages/{killer}/")
    assert "A candidate from now on: delivered alone" in text
    assert "Cleared: delivered alone" in text
    assert "candidate</span>" not in text


def test_output_is_cut_and_made_visible(operator: Client) -> None:
    blacklisted(output=b"start" + b"\x00\x1b[2J\xff" * 2000 + b"the end", title="x" * 300, error_message="y" * 4000)
    text = text_of(operator)
    assert "the end" in text
    assert "start" not in text.split('class="crashes"')[1].replace("starts", "")
    assert "\x1b" not in text
    assert "␛[2J" in text


def test_a_hundred_thousand_blacklisted_messages_are_read_by_their_index(operator: Client) -> None:
    blacklisted()
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO message (address_id, lane_id, state, reason, candidate, state_at)
               SELECT address_id, lane_id, CASE WHEN n %% 2 = 0 THEN 'NDLV' ELSE 'DLVD' END,
                      CASE WHEN n %% 2 = 0 THEN 'blacklisted' END, n %% 2 = 0, now() - n * interval '1 s'
               FROM message, generate_series(1, 40000) n WHERE message.id = (SELECT max(id) FROM message)""",
            [],
        )
        cursor.execute("ANALYZE message")
        plans = {}
        limited = principal("kim", Role.VIEWER, ["orders.eu"])
        for name, ask in {
            "list": lambda: queries.list_blacklisted(principal=SYSTEM),
            "narrowed": lambda: queries.list_blacklisted(principal=limited, patterns=["orders.*"]),
            "newer": lambda: queries.count_newer(
                principal=SYSTEM, patterns=(), since=Message.objects.latest("state_at").state_at
            ),
            "candidates": lambda: queries.candidates(principal=SYSTEM, limit=10),
            "count": lambda: queries.count_candidates(principal=SYSTEM),
        }.items():
            plans[name] = _plans(ask)
    assert "Seq Scan on message" not in "\n".join(plans.values())
    for name in ("list", "narrowed", "newer"):
        assert "message_blacklisted" in plans[name], name
    for name in ("candidates", "count"):
        assert "message_candidates" in plans[name], plans[name]


def _plans(ask: Callable[[], object]) -> str:
    found: list[str] = []

    def explained(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        if "FROM message m" in sql:
            with connection.connection.cursor() as plain:
                plain.execute(f"EXPLAIN {sql}", params)
                found.extend(row[0] for row in plain.fetchall())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explained):
        ask()
    return "\n".join(found)
