"""Batches through the API: what the answer says when nothing of it was accepted."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from poisonadmin.store.models.intake import RejectedLine
from tests.fixtures.api import caller_of

pytestmark = pytest.mark.django_db


def lines(*fields: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in fields)


@pytest.fixture
def send(db: None) -> Callable[[bytes], Any]:
    """Return what posts the bytes of a batch."""
    admin = caller_of("admin")
    return lambda body: admin.post("messages/batch/", body, Content_Type="application/x-ndjson")


def test_a_batch_of_nothing_but_mistakes_says_once_what_is_wrong(send: Callable[..., Any]) -> None:
    answer = send(lines(*[{"adress": "orders.eu", "payload": 1}] * 1000))
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "nothing_accepted")
    assert "None of the 1,000 lines was accepted" in problem["detail"]
    assert "1,000 x unknown_field" in problem["detail"]
    assert "Fields are address, " in problem["detail"]
    assert len(problem["detail"]) < 1000
    assert RejectedLine.objects.count() == 1000


def test_a_batch_with_one_good_line_is_accepted(send: Callable[..., Any]) -> None:
    answer = send(lines({"adress": "x"}, {"address": "orders.eu", "payload": 1}))
    assert (answer.status_code, answer.json()["accepted"], answer.json()["rejected_count"]) == (202, 1, 1)
