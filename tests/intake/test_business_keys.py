"""Business keys are extracted in every way in, shown in lists, and found again."""

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.policies.commands import save_policy
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.store.models.rule import BusinessKey
from tests.fixtures.inbox import Inbox, Ingest
from tests.intake.store import line, rows
from tests.sources.test_directory import numbered

KEYS = ["$.order.id", "shop=header:X-Shop"]
ORDER = {"payload": {"order": {"id": 4711}}, "headers": {"X-Shop": "eu"}}
BOTH = {"order.id": "4711", "shop": "eu"}


def name_keys(*keys: str, match: str = "orders.#") -> None:
    """Name the business keys of a pattern."""
    save_policy(match, preset=None, settings={"business_keys": list(keys)}, destination=None, principal=SYSTEM)


def found(**params: str) -> list[int]:
    """Return the ids of the messages that a filter finds, oldest first."""
    asked = {name.replace("__", "."): [text] for name, text in params.items()}
    return [row.id for row in list_messages(parse_filter(asked), principal=SYSTEM, ordering="id").results]


def one(**fields: object) -> int:
    """Take in one message and return its id."""
    envelope = parse_envelope({"address": "orders.eu", **ORDER, **fields})
    return accept(envelope, principal=SYSTEM, received_by="test").id


@pytest.mark.django_db
def test_a_single_message_is_taken_in_with_its_keys() -> None:
    name_keys(*KEYS)
    message = one()
    assert get_message(message, principal=SYSTEM).business_keys == BOTH
    assert list_messages(parse_filter({}), principal=SYSTEM).results[0].business_keys == BOTH
    elsewhere = one(address="invoices.eu")
    assert get_message(elsewhere, principal=SYSTEM).business_keys == {}


@pytest.mark.django_db
def test_a_batch_is_taken_in_with_its_keys_and_a_duplicate_leaves_none() -> None:
    name_keys(*KEYS)
    lines = [line(message_id=name, **ORDER) for name in ("a", "b", "a")]
    result = accept_stream([b"".join(lines)], principal=SYSTEM)
    assert (result.accepted, result.duplicates) == (2, 1)
    assert rows("SELECT message_id FROM business_key GROUP BY 1 ORDER BY 1") == rows(
        "SELECT id FROM message ORDER BY 1"
    )
    assert set(BusinessKey.objects.values_list("name", "value")) == set(BOTH.items())


@pytest.mark.django_db
def test_a_dead_letter_that_is_handed_in_has_its_keys() -> None:
    name_keys(*KEYS)
    assert get_message(one(dead_letter={"reason": "r"}), principal=SYSTEM).business_keys == BOTH


def test_a_file_is_staged_with_its_keys_by_the_tasks(inbox: Inbox, ingest: Ingest) -> None:
    name_keys(*KEYS)
    inbox.drop("a.ndjson", b"".join(line(message_id=str(n), payload={"order": {"id": n}}) for n in range(200)))
    inbox.drop("b.ndjson", b"".join(line(message_id=str(n), payload={"order": {"id": n}}) for n in range(150, 250)))
    ingest()
    stored = rows(
        "SELECT envelope.message_id, value FROM business_key JOIN envelope ON envelope.id = business_key.message_id"
    )
    assert sorted(stored, key=lambda row: int(row[0])) == [(str(n), str(n)) for n in range(250)]
    assert rows("SELECT count(*) FROM business_key") == [(250,)]


def test_without_a_policy_that_names_keys_nothing_is_written(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("a.ndjson", numbered(20))
    ingest()
    assert rows("SELECT count(*) FROM business_key") == [(0,)]


@pytest.mark.django_db
def test_a_key_is_searched_by_its_name_and_by_its_value() -> None:
    name_keys(*KEYS)
    first, second = one(), one(payload={"order": {"id": "4712-b"}}, headers={"X-Shop": "us"})
    assert found(**{"key__order.id": "4711"}) == [first]
    assert found(key__shop="us") == [second]
    assert found(key__shop="nowhere") == []
    assert found(key__order="4711") == []
    assert found(q="key.order.id:4712-b") == [second]
    assert found(q="!key.shop:us") == [first]
    assert found(q="4712") == [second]
    assert found(q="471") == [first, second]


@pytest.mark.django_db
def test_a_change_of_the_policy_does_not_rewrite_the_past() -> None:
    name_keys("$.order.id")
    before = one()
    name_keys("order=$.order.id")
    after = one()
    assert get_message(before, principal=SYSTEM).business_keys == {"order.id": "4711"}
    assert get_message(after, principal=SYSTEM).business_keys == {"order": "4711"}
    assert found(key__order="4711") == [after]
