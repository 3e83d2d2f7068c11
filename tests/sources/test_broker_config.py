"""What the configuration of a broker may say."""

from typing import Any

import pytest

from poisonadmin.brokers.domain.broker_kinds import DESTINATION_DEFAULTS, SOURCE_DEFAULTS
from poisonadmin.brokers.domain.broker_urls import InvalidBrokerUrl, parse_broker_url
from poisonadmin.brokers.domain.brokers import (
    InvalidSource,
    may_keep_login,
    validate_broker_destination,
    validate_broker_source,
    validate_login,
)
from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import InvalidDestination


@pytest.mark.parametrize(
    ("kind", "url", "hosts"),
    [
        ("rabbitmq", "amqp://r.example.org", [("r.example.org", 5672)]),
        ("rabbitmq", "amqps://r.example.org/shop", [("r.example.org", 5671)]),
        ("artemis", "stomp://[2001:db8::1]:61614", [("2001:db8::1", 61614)]),
        ("artemis", "stomp+ssl://a.example.org/", [("a.example.org", 61612)]),
        ("kafka", "kafka://a:1,b:2,c", [("a", 1), ("b", 2), ("c", 9092)]),
        ("kafka", "kafka+ssl://a", [("a", 9093)]),
    ],
)
def test_a_url_says_where_a_broker_is(kind: str, url: str, hosts: list[tuple[str, int]]) -> None:
    assert list(parse_broker_url(kind, url).hosts) == hosts


@pytest.mark.parametrize(
    ("path", "virtual_host"), [("", "/"), ("/", "/"), ("/%2F", "/"), ("/shop", "shop"), ("/a%2Fb%20c", "a/b c")]
)
def test_the_path_of_a_rabbitmq_url_is_its_virtual_host(path: str, virtual_host: str) -> None:
    assert parse_broker_url("rabbitmq", f"amqp://r.example.org{path}").virtual_host == virtual_host


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("rabbitmq", "amqp://user:canary@r.example.org"),
        ("rabbitmq", "amqp://r.example.org/a/b"),
        ("rabbitmq", "amqp://r.example.org/%FF"),
        ("rabbitmq", "amqp://r.example.org/%00"),
        ("rabbitmq", "amqp://r.example.org?heartbeat=0"),
        ("rabbitmq", "amqp://a,b"),
        ("rabbitmq", "kafka://a"),
        ("rabbitmq", "amqp://"),
        ("rabbitmq", "amqp://:5672"),
        ("rabbitmq", "amqp://a:0"),
        ("rabbitmq", "amqp://a:70000"),
        ("rabbitmq", "amqp://0x7f.1"),
        ("rabbitmq", "amqp://2130706433"),
        ("rabbitmq", "amqp://a b"),
        ("rabbitmq", "amqp://ä"),
        ("rabbitmq", "amqp://a\nb"),
        ("rabbitmq", "amqp://[::1"),
        ("rabbitmq", "amqp://" + "a" * 3000),
        ("rabbitmq", 7),
        ("rabbitmq", None),
        ("artemis", "stomp://a/path"),
        ("artemis", "amqp://a"),
        ("kafka", "kafka://a,,b"),
        ("kafka", "kafka://a,user@b"),
        ("kafka", "kafka://a:1,b:x"),
        ("kafka", "kafka://" + ",".join("abcdefghijklmnopqrstu")),
    ],
)
def test_a_url_that_says_it_badly_is_refused_and_no_login_repeated(kind: str, url: Any) -> None:
    with pytest.raises(InvalidBrokerUrl) as refused:
        parse_broker_url(kind, url)
    assert "canary" not in refused.value.detail


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("10.1.2.3", "POISONADMIN_ALLOWED_NETWORKS"),
        ("127.0.0.1", "POISONADMIN_ALLOWED_NETWORKS"),
        ("[::ffff:10.1.2.3]", "POISONADMIN_ALLOWED_NETWORKS"),
        ("169.254.169.254", "no setting allows it"),
        ("[fe80::1]", "no setting allows it"),
    ],
)
def test_a_guard_keeps_brokers_out_of_private_networks(host: str, said: str) -> None:
    with pytest.raises(InvalidBrokerUrl, match=said):
        parse_broker_url("kafka", f"kafka://k.example.org,{host}:9092", guard=NetworkGuard())


def source(kind: str = "rabbitmq", **config: Any) -> dict[str, Any]:
    url = {"rabbitmq": "amqp://r", "artemis": "stomp://a", "kafka": "kafka://k"}[kind]
    drained = "topics" if kind == "kafka" else "queues"
    return validate_broker_source(kind, {"url": url, drained: ["dlq"], **config}, name="shop")


@pytest.mark.parametrize("kind", ["rabbitmq", "artemis", "kafka"])
def test_every_default_is_a_setting(kind: str) -> None:
    given = {name: value for name, value in SOURCE_DEFAULTS[kind].items() if value is not None}
    assert source(kind, **given).items() >= given.items()
    back = {name: value for name, value in DESTINATION_DEFAULTS[kind].items() if value is not None}
    url = {"rabbitmq": "amqp://r", "artemis": "stomp://a", "kafka": "kafka://k"}[kind]
    assert validate_broker_destination(kind, {"url": url, **back}) == {"url": url, **back}


@pytest.mark.parametrize(
    ("kind", "config", "field"),
    [
        ("rabbitmq", {"queues": "dlq"}, "queues"),
        ("rabbitmq", {"queues": [""]}, "queues"),
        ("rabbitmq", {"queues": [" "]}, "queues"),
        ("rabbitmq", {"queues": ["x" * 256]}, "queues"),
        ("rabbitmq", {"queues": ["a\x00b"]}, "queues"),
        ("rabbitmq", {"queues": ["\ud800"]}, "queues"),
        ("rabbitmq", {"queues": [["a"]]}, "queues"),
        ("rabbitmq", {"queues": [str(n) for n in range(101)]}, "queues"),
        ("rabbitmq", {"topics": ["a"]}, "topics"),
        ("kafka", {"topics": ["not a topic"]}, "topics"),
        ("kafka", {"topics": [".."]}, "topics"),
        ("kafka", {"group": ""}, "group"),
        ("kafka", {"readers": 2}, "readers"),
        ("kafka", {"sasl_mechanism": "GSSAPI"}, "sasl_mechanism"),
        ("kafka", {"sasl_mechanism": ["PLAIN"]}, "sasl_mechanism"),
        ("artemis", {"address": ""}, "address"),
        ("artemis", {"address": "a..{queue}"}, "address"),
        ("artemis", {"address": "{queue}.#"}, "address"),
        ("artemis", {"address": "{0}"}, "address"),
        ("artemis", {"readers": True}, "readers"),
        ("artemis", {"verify_tls": 1}, "verify_tls"),
        ("artemis", {"management_url": "http://a.example.org"}, "management_url"),
        ("rabbitmq", {"management_url": "file:///etc/passwd"}, "management_url"),
    ],
)
def test_a_source_says_which_field_is_wrong(kind: str, config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSource) as refused:
        source(kind, **config)
    assert refused.value.field == field


def test_a_queue_may_be_called_anything_that_a_broker_allows() -> None:
    names = ["orders dlq", "DLQ::bestellungen/ü", "#*"]
    assert source(queues=names)["queues"] == names


def test_without_queues_it_may_be_asked_which_there_are() -> None:
    config = {"url": "kafka://k"}
    assert validate_broker_source("kafka", config, name="shop", needs_queues=False)["topics"] == []
    with pytest.raises(InvalidSource):
        validate_broker_source("kafka", config, name="shop")


@pytest.mark.parametrize(
    "config",
    [{"queue": "a", "exchange": "b"}, {"routing_key": "a"}, {"topic": "a"}, {"timeout_ms": 1}, {"headers": {}}, {}],
)
def test_a_destination_that_cannot_be_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidDestination):
        validate_broker_destination("rabbitmq", {"url": "amqp://r", **config} if config else {})


def test_an_exchange_may_be_given_an_empty_routing_key() -> None:
    config = {"url": "amqp://r", "exchange": "amq.fanout", "routing_key": ""}
    assert validate_broker_destination("rabbitmq", config) == config


@pytest.mark.parametrize(
    "secrets",
    [{"token": "x"}, {"password": "x"}, {"username": "a\x00"}, {"username": "\ud800"}, {"username": "x" * 2049}],
)
def test_a_login_is_a_username_and_a_password(secrets: dict[str, Any]) -> None:
    with pytest.raises(InvalidSource, match="secrets"):
        validate_login(secrets)


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        ({"url": "amqp://r", "queues": ["b"]}, True),
        ({"url": "amqp://r", "verify_tls": True}, True),
        ({"url": "amqp://r", "verify_tls": False}, False),
        ({"url": "amqp://s"}, False),
        ({"url": "amqp://r", "management_url": "https://s"}, False),
    ],
)
def test_a_login_does_not_go_along_to_another_place(after: dict[str, Any], kept: bool) -> None:
    assert may_keep_login({"url": "amqp://r", "queues": ["a"]}, after) is kept
