"""The preview says how long an operation takes at least, at the rate that is chosen."""

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.domain.pace import Deliveries, Pace, duration
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.destination import Destination
from tests.fixtures.api import Caller, take_dead
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db
NDLV = {"state": ["NDLV"]}


@pytest.fixture(autouse=True)
def orders(orders_destination: None) -> None:
    """Let `orders.#` deliver."""


@pytest.mark.parametrize(("messages", "stages"), [(1, 0), (2, 1), (11, 1), (12, 2), (111, 2), (112, 3), (1700, 3)])
def test_a_canary_waits_after_each_stage_but_the_last(messages: int, stages: int) -> None:
    found = duration({"shop": Deliveries(messages, None)}, Pace(200.0, has_canary=True))
    assert found is not None
    assert (found.stages, found.seconds) == (stages, messages / 200)


def test_nothing_is_said_where_nothing_limits_it() -> None:
    assert duration({"shop": Deliveries(1700, None)}, Pace()) is None
    assert duration({}, Pace(200.0)) is None


def test_the_api_says_it_for_what_will_be_delivered(operator: Caller) -> None:
    for address in ("orders.eu", "orders.eu", "orders.eu", "elsewhere.x"):
        take_dead(address)
    preview = f"selections/{freeze(NDLV, principal=SYSTEM)}/preview/"
    assert operator.get(preview).json()["duration"] is None
    at_a_rate = {"seconds": 6.0, "count": 3, "rate_per_second": 0.5, "destination": None, "stages": 0}
    assert operator.get(f"{preview}?action=approve&rate_per_second=0.5").json()["duration"] == at_a_rate
    asked = {"action": "approve", "rate_per_second": 0.5, "canary": True}
    assert operator.post(preview, asked).json()["duration"] == at_a_rate | {"stages": 1}


def test_the_limit_of_a_destination_counts_where_it_is_lower(operator: Caller) -> None:
    Destination.objects.filter(name="shop").update(max_rate_per_second=0.25)
    for _ in range(2):
        take_dead()
    preview = f"selections/{freeze(NDLV, principal=SYSTEM)}/preview/"
    found = operator.get(f"{preview}?rate_per_second=100").json()["duration"]
    assert found == {"seconds": 8.0, "count": 2, "rate_per_second": 0.25, "destination": "shop", "stages": 0}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("rate_per_second=0", "invalid_operation"),
        ("rate_per_second=1e9", "invalid_parameter"),
        ("rate_per_second=nan", "invalid_parameter"),
        ("action=fail&rate_per_second=5", "invalid_operation"),
        ("action=fail&canary=true", "invalid_operation"),
    ],
)
def test_a_preview_refuses_what_the_operation_would(operator: Caller, query: str, code: str) -> None:
    take_dead()
    refused = operator.get(f"selections/{freeze(NDLV, principal=SYSTEM)}/preview/?{query}")
    assert (refused.status_code, refused.json()["code"]) == (400, code)


def test_the_page_says_it_while_the_rate_is_typed(operator_browser: Client) -> None:
    for _ in range(20):
        take_dead()
    selection = f"/operations/selections/{freeze(NDLV, principal=SYSTEM)}/"
    assert f'hx-post="{selection}duration/?action=approve"' in html_of(
        operator_browser.get(f"{selection}?action=approve")
    )
    typed = {"rate_per_second": "2", "canary": "on", "reason": ""}
    shown = html_of(operator_browser.post(f"{selection}duration/?action=approve", typed))
    assert "20 at 2/s: about 10 s, and 2 waits for the answers to the canary." in shown
    nothing = operator_browser.post(f"{selection}duration/?action=approve", {"rate_per_second": "0"})
    assert (nothing.status_code, html_of(nothing).strip()) == (200, "")
    refused = html_of(operator_browser.post(f"{selection}?action=approve", typed | {"begin": "1"}))
    assert "20 at 2/s: about 10 s" in refused
