"""Headers that a person has changed go back to the broker as texts, the others in the broker's own types."""

from typing import Any

from poisonadmin.brokers.domain.broker_kinds import ARTEMIS, KAFKA, RABBITMQ
from workers.brokers.artemis.messages import frame_of
from workers.brokers.contract import Login, Outgoing, encoded
from workers.brokers.kafka.messages import record_of
from workers.brokers.rabbitmq.encoding import fields, read_content, text_field, value_of
from workers.brokers.rabbitmq.messages import frames_of

EDITED = {"tenant": "us", "trace": None, "x-new": "1", "PoisonAdmin-Attempt": "9"}
_HEADER_FRAME = 2


def outgoing(**transport: Any) -> Outgoing:
    return Outgoing(
        payload=b"x",
        content_type="text/plain",
        headers={},
        own_headers={"PoisonAdmin-Attempt": "3"},
        route="orders",
        message_id="m",
        transport={**transport, "edited_headers": EDITED},
    )


def test_kafka_gets_them_as_bytes() -> None:
    typed = [["Tenant", encoded(b"eu")], ["trace", encoded(b"7")], ["count", encoded(b"\xff")]]
    headers = record_of(outgoing(broker=KAFKA, headers=typed))["headers"]
    assert headers == [("count", b"\xff"), ("tenant", b"us"), ("x-new", b"1"), ("PoisonAdmin-Attempt", b"3")]


def test_artemis_gets_them_as_texts() -> None:
    typed = {"Tenant": "eu", "trace": "7", "count": "1"}
    _, sent, _ = frame_of(outgoing(broker=ARTEMIS, headers=typed), "orders", "ANYCAST", "r")
    found = {name: sent.get(name) for name in ("Tenant", "tenant", "trace", "count", "x-new", "PoisonAdmin-Attempt")}
    assert found == {
        "Tenant": None,
        "tenant": "us",
        "trace": None,
        "count": "1",
        "x-new": "1",
        "PoisonAdmin-Attempt": "3",
    }


def test_rabbitmq_gets_them_as_texts_beside_its_own_types() -> None:
    number = b"\x05countI\x00\x00\x00\x07"
    table = text_field("Tenant", "eu") + text_field("trace", "7") + number
    transport = {"broker": RABBITMQ, "headers": encoded(table), "properties": {}}
    login = Login("amqp://broker.example")
    raw = frames_of(outgoing(**transport), login, 100_000)
    headers = read_content(_content_header(raw)).headers
    assert {name: value_of(headers, kind, value, end) for name, kind, _, value, end in fields(headers)} == {
        "count": 7,
        "tenant": "us",
        "x-new": "1",
        "PoisonAdmin-Attempt": "3",
    }
    assert number in headers


def _content_header(raw: bytes) -> bytes:
    """Return the payload of the frame that holds properties and headers."""
    place = 0
    while True:
        kind, size = raw[place], int.from_bytes(raw[place + 3 : place + 7])
        if kind == _HEADER_FRAME:
            return raw[place + 7 : place + 7 + size]
        place += 8 + size
