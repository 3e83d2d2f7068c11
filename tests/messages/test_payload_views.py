"""Whatever a payload is, the views of it are bounded, and none of them raises."""

import base64

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.desk.pages import readable
from poisonadmin.desk.pages.readable import MAX_HEX_BYTES, MAX_NODES, MAX_SHOWN_BYTES, NoTree, TreeNode
from poisonadmin.policies.commands import save_policy
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import waiting
from tests.hostile_payloads import PAYLOADS
from tests.web.test_hostile_text import dangers

JSON_LIKE = st.lists(
    st.sampled_from(['"', "\\", "[", "]", "{", "}", ":", ",", "1", "e9", "NaN", "null", " ", "\0", "é", "\\ud800"])
).map(lambda marks: "".join(marks).encode())


def tree_or_nothing(payload: bytes) -> list[TreeNode]:
    try:
        return readable.tree(payload)
    except NoTree:
        return []


@given(payload=st.one_of(st.binary(max_size=300), JSON_LIKE))
@settings(max_examples=300, deadline=None, database=None)
def test_any_bytes_have_views(payload: bytes) -> None:
    nodes = tree_or_nothing(payload)
    assert sum((node.kind == "open") - (node.kind == "close") for node in nodes) == 0
    text = readable.text(payload)
    assert text is None or "\0" not in text
    assert readable.hexadecimal(payload).count("\n") <= MAX_HEX_BYTES // 16


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_hostile_payload_filled_up_to_what_a_page_reads_has_bounded_views(name: str) -> None:
    payload = (PAYLOADS[name] * (MAX_SHOWN_BYTES // max(1, len(PAYLOADS[name])) + 1))[:MAX_SHOWN_BYTES]
    assert len(tree_or_nothing(payload)) <= 2 * MAX_NODES
    assert len(readable.hexadecimal(payload)) < 80 * MAX_HEX_BYTES // 16
    shown = readable.text(payload)
    assert shown is None or len(shown) <= 8 * MAX_SHOWN_BYTES


@pytest.mark.django_db
@pytest.mark.parametrize("view", ["tree", "raw", "hex"])
@pytest.mark.parametrize("name", PAYLOADS)
def test_a_hostile_payload_has_a_page(name: str, view: str, operator_browser: Client) -> None:
    message = waiting(payload=None, payload_base64=base64.b64encode(PAYLOADS[name]).decode())
    answer = operator_browser.get(reverse("messages-one", args=[message.id]), {"view": view})
    assert answer.status_code == 200
    assert dangers(answer.content.decode()) == []


@pytest.mark.django_db
def test_a_page_reads_the_beginning_of_a_long_payload_and_a_download_reads_it_in_slices(
    operator_browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = waiting(payload="é" * 1_000_000)
    page = operator_browser.get(reverse("messages-one", args=[message.id]))
    assert len(page.content) < 700_000
    monkeypatch.setattr("poisonadmin.core.queries.rows.SLICE_BYTES", 300_000)
    monkeypatch.setattr("poisonadmin.web.api.attachments.SLICE_BYTES", 300_000)
    download = operator_browser.get(reverse("messages-payload", args=[message.id]))
    slices = list(download.streaming_content)  # type: ignore[attr-defined]
    assert [len(one) for one in slices] == [300_000] * 6 + [200_000]
    assert b"".join(slices) == "é".encode() * 1_000_000
    assert download["Content-Length"] == "2000000"


@pytest.mark.django_db
def test_the_page_of_a_message_that_is_too_large_says_what_to_do(operator_browser: Client) -> None:
    make_orders_destination()
    save_policy("orders.small", preset=None, settings={"max_payload_bytes": 10}, destination=None, principal=SYSTEM)
    message = waiting("orders.small", payload="x" * 2000)
    page = operator_browser.get(reverse("messages-one", args=[message.id])).content.decode()
    assert "is larger than its address allows" in page
    assert "The payload has 2000 bytes; orders.small takes at most 10" in page
    dialog = operator_browser.post(
        reverse("messages-decide", args=["approve"]), {"id": message.id, "reason": "send it"}, follow=True
    ).content.decode()
    assert "raise max_payload_bytes" in dialog
