"""How a message died, what approving it risks, and what its page tells of both."""

from html import unescape

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.policies.commands import save_policy
from tests import crashes
from tests.messages.test_crashed_page import blacklisted, some, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_destination")]


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
def test_every_way_to_die_is_named(operator_browser: Client, columns: dict[str, object], tag: str) -> None:
    blacklisted(**columns)
    assert f">{tag}</span>" in text_of(operator_browser)


@pytest.mark.parametrize(
    ("policy", "warning"),
    [
        ({}, "It crashed its consumer before. It is delivered alone, and one more crash blacklists it again."),
        (
            {"approve_clears_candidate": True},
            "It crashed its consumer before. Approval resets the count: 2 crashes blacklist it again.",
        ),
        ({"crash_limit": 4}, "It is delivered alone, and 2 more crashes blacklist it."),
        ({"crashes_to_list": 3}, "delivered alone, and one more crash puts it on the poison list."),
        ({"blame": "all_in_flight"}, "delivered among others, and one more crash blacklists it again."),
        (
            {"crashes_count_as_failures": True, "max_delivery_attempts": 1, "crash_limit": 9},
            "delivered alone, and one more crash uses up its attempts.",
        ),
        ({"blacklisting_enabled": False}, "The policy switches blacklisting off"),
        ({"blacklisting_enabled": False, "crashes_to_list": 1}, "one more crash puts it on the poison list."),
    ],
)
def test_approving_warns_of_what_one_more_crash_does(
    operator_browser: Client, policy: dict[str, object], warning: str
) -> None:
    message_id = blacklisted()
    save_policy("orders.eu", preset=None, settings=policy, destination=None, principal=SYSTEM)
    asked = operator_browser.post("/messages/decide/approve/", {"id": [message_id], "origin": "crashed"})
    assert warning in unescape(asked.content.decode())
    failed = operator_browser.post("/messages/decide/fail/", {"id": [message_id], "origin": "crashed"})
    assert "crashed what processed" not in failed.content.decode()


def test_the_message_page_tells_how_it_died_and_how_it_was_cleared(operator_browser: Client) -> None:
    killer, other = some(2)
    together = crashes.take([killer, other])
    crashes.crash(together, killer, output=b"<b>last words</b>")
    crashes.lose(together, other)
    text = text_of(operator_browser, f"/messages/{killer}/")
    assert "Its sandbox was killed by SIGSEGV" in text
    assert "A candidate from now on" in text
    assert "one more crash blacklists it" in text
    assert '<pre class="wild"><b>last words</b>' in text  # unescaped by text_of
    assert "<b>last words" not in operator_browser.get(f"/messages/{killer}/").content.decode()
    assert "The worker was lost while it was being delivered" in text_of(operator_browser, f"/messages/{other}/")
    assert "(lost)" in text_of(operator_browser, f"/messages/{other}/")
    alone = crashes.take([killer], alone=True)
    crashes.deliver(alone, killer)
    text = text_of(operator_browser, f"/messages/{killer}/")
    assert "A candidate from now on: delivered alone" in text
    assert "Cleared: delivered alone" in text
    assert "candidate</span>" not in text


def test_output_is_cut_and_made_visible(operator_browser: Client) -> None:
    blacklisted(
        output=b"the first line" + b"\x00\x1b[2J\xff" * 2000 + b"the end", title="x" * 300, error_message="y" * 4000
    )
    text = text_of(operator_browser)
    assert "the end" in text
    assert "the first line" not in text
    assert "\x1b" not in text
    assert "␛[2J" in text


def test_under_the_plain_rule_the_page_says_whose_crash_it_was(operator_browser: Client) -> None:
    save_policy("orders.eu", preset=None, settings={"blame": "all_in_flight"}, destination=None, principal=SYSTEM)
    killer, other = some(2)
    together = crashes.take([killer, other])
    crashes.crash(together, killer)
    crashes.suspect(together, other)
    text = text_of(operator_browser, f"/messages/{other}/")
    assert "It was being delivered when another message crashed the sandbox" in text
    assert "under way at a crash" in text
    assert "delivered alone" not in text
    blacklist = text_of(operator_browser)
    assert f'id="candidate-{other}"' in blacklist
    crashes.deliver(crashes.take([other]), other)
    assert "Cleared: delivered" in text_of(operator_browser, f"/messages/{other}/")
