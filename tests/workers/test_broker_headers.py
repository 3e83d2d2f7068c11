"""What dead letters of Artemis and Kafka say of themselves, and what of it goes back: no broker is needed for it."""

from datetime import UTC, datetime

import pytest

from workers.brokers.artemis import messages as artemis
from workers.brokers.kafka import messages as kafka

AT = datetime(2026, 3, 1, tzinfo=UTC)


def test_an_expired_message_of_artemis_says_when() -> None:
    told = {"_AMQ_ORIG_ADDRESS": "orders", "_AMQ_ORIG_QUEUE": "orders.eu", "_AMQ_ACTUAL_EXPIRY": "1772323200000"}

    found = artemis.dead_letter_of(told, "ExpiryQueue")

    assert (found.reason, found.failed_at, found.original_address) == ("expired", AT, "orders")
    (move,) = found.moves
    assert (move.queue, move.reason, move.to) == ("orders::orders.eu", "expired", "ExpiryQueue")


@pytest.mark.parametrize("odd", ["", "x", "-5", "٣", "9" * 40, "0"])
def test_an_odd_expiry_is_none(odd: str) -> None:
    told = {"_AMQ_ORIG_ADDRESS": "orders", "_AMQ_ACTUAL_EXPIRY": odd}

    assert artemis.dead_letter_of(told, "ExpiryQueue").failed_at is None


def test_a_message_that_was_sent_to_the_dead_letter_queue_has_no_origin() -> None:
    found = artemis.dead_letter_of({"tenant": "eu"}, "DLQ")

    assert (found.reason, found.original_address, found.moves, found.came_back) == (None, None, (), None)


def test_the_cause_that_an_openwire_client_stamps_is_taken_apart() -> None:
    told = (
        "java.lang.Throwable: Delivery[7] exceeds redelivery policy limit:{…}, cause:com.example.Refused: no such one"
    )

    found = artemis.dead_letter_of({"dlqDeliveryFailureCause": told}, "DLQ")

    assert (found.exception_class, found.exception_message) == ("com.example.Refused", "no such one")


def test_texts_that_postgresql_cannot_hold_are_made_storable() -> None:
    told = {"_AMQ_ORIG_ADDRESS": "or\0ders\ud800", "MT-Fault-Message": "a\0b"}

    found = artemis.dead_letter_of(told, "DLQ")

    assert (found.original_address, found.exception_message) == ("or\ufffdders?", "a\ufffdb")


def test_kafka_connect_says_stage_class_and_partition_as_texts() -> None:
    told = [
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"1200"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("__connect.errors.exception.message", b"Converting byte[] failed"),
        ("__connect.errors.exception.stacktrace", b"org.apache.kafka...\n\tat x"),
    ]

    found = kafka.dead_letter_of(told, "connect-dlq", AT)

    assert (found.reason, found.original_address, found.failed_at) == ("value_converter", "orders", AT)
    assert found.exception_class == "org.apache.kafka.connect.errors.DataException"
    assert kafka.origin_of(told) == kafka.RecordOrigin("orders", 3)


def test_each_topic_that_a_record_of_spring_went_through_is_a_hop() -> None:
    told = [
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", (2).to_bytes(4)),
        ("kafka_dlt-original-topic", b"orders-retry-0"),
        ("kafka_dlt-original-partition", (0).to_bytes(4)),
        ("retry_topic-attempts", (3).to_bytes(4)),
        ("kafka_dlt-exception-fqcn", b"first"),
        ("kafka_dlt-exception-fqcn", b"last"),
    ]

    found = kafka.dead_letter_of(told, "orders-dlt", AT)

    assert [(move.queue, move.to, move.at) for move in found.moves] == [
        ("orders", "orders-retry-0", None),
        ("orders-retry-0", "orders-dlt", AT),
    ]
    assert (found.original_address, found.exception_class, found.delivery_count) == ("orders", "last", 3)
    assert kafka.origin_of(told) == kafka.RecordOrigin("orders", 2)


@pytest.mark.parametrize("odd", [b"", b"\xff", b"-1", b"\xff\xff\xff\xff", b"1" * 30, b"\x00" * 3])
def test_an_odd_partition_is_none(odd: bytes) -> None:
    assert (
        kafka.origin_of([("kafka_dlt-original-topic", b"t"), ("kafka_dlt-original-partition", odd)]).partition is None
    )


def test_our_own_headers_say_whose_return_a_record_was() -> None:
    told = [("PoisonAdmin-Message-Id", b"77"), ("PoisonAdmin-Attempt", b"2"), ("tenant", b"\xff")]

    found = kafka.dead_letter_of(told, "orders-dlt", None).came_back

    assert found is not None
    assert (found.message_id, found.attempt_number) == (77, 2)


@pytest.mark.parametrize(
    "name",
    [
        "kafka_dlt-exception-message", "kafka_original-topic", "__connect.errors.stage", "dead-letter-reason",
        "retry_topic-backoff-timestamp", "kafka_deliveryAttempt", "springDeserializerExceptionValue",
        "PoisonAdmin-Operation",
    ],
)  # fmt: skip
def test_what_tells_of_former_failures_does_not_go_back(name: str) -> None:
    assert kafka.is_left_out(name)
