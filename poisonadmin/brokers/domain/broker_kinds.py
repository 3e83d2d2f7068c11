"""The kinds of brokers, each declared once, and the checks of their settings, which return a value as it is stored.

Read by checks, forms, pages, API, `manage.py source` and workers. A new broker is a declaration here
and its adapter in `workers/brokers/<name>/` (docs/develop/extending.md).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.core.domain.durations import duration
from poisonadmin.core.domain.settings import (
    Check,
    InvalidValue,
    Setting,
    choice,
    flag,
    named,
    number,
    one_of,
    switch,
    text,
    whole,
)
from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import InvalidDestination, validate_url

MAX_NAME_BYTES = 255

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_PLACEHOLDER = re.compile(r"\{(original|queue)\}")


def printable(value: object) -> str:
    """Check a name or another printable text."""
    # Unprintable characters are refused with the lone surrogates that UTF-8 cannot hold.
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise InvalidValue("must be a printable text")
    if len(value.encode()) > MAX_NAME_BYTES:
        raise InvalidValue(f"may have at most {MAX_NAME_BYTES} bytes")
    return value


def printable_or_empty(value: object) -> str:
    """Check a printable text that may be empty."""
    return "" if value == "" else printable(value)


def topic(value: object) -> str:
    """Check the name of a topic.

    >>> topic("orders-dlt")
    'orders-dlt'
    """
    name = printable(value)
    if _TOPIC.match(name) is None or name in (".", ".."):
        raise InvalidValue(f"{name!r} is not a topic: letters, digits, dots, underscores and hyphens, at most 249")
    return name


def address_template(value: object) -> str:
    """Check a template of addresses with `{original}` and `{queue}`."""
    template = printable(value)
    try:
        validate_address(_PLACEHOLDER.sub("x", template))
    except InvalidAddress as error:
        raise InvalidValue(error.detail) from None
    if "{" in (rest := _PLACEHOLDER.sub("", template)) or "}" in rest:
        raise InvalidValue("known placeholders are {original} and {queue}")
    return template


def http_url(value: object, guard: NetworkGuard | None = None) -> str:
    """Check an http(s) URL, and the address that is written in it."""
    try:
        return validate_url(value, guard=guard)
    except InvalidDestination as error:
        raise InvalidValue(error.detail.removeprefix("url: ")) from None


RABBITMQ, ARTEMIS, KAFKA = "rabbitmq", "artemis", "kafka"


@dataclass(frozen=True)
class BrokerKind:
    """One kind of broker.

    `schemes`: those of its URLs, each with its default port; `tls_schemes` connect with TLS; `url_form` and `example`
    say how a URL looks. `drained`: the name of the setting that lists what a source takes messages from, each name of
    which `check_name` checks. `source` and `destination`: the settings beside these. `discovery_note` says how queues
    are found, where that takes more than the URL; `preview_note` what a preview leaves behind, which is why such a
    broker cannot be observed.
    """

    name: str
    words: str
    schemes: Mapping[str, int]
    tls_schemes: frozenset[str]
    url_form: str
    example: str
    drained: str
    check_name: Check
    source: tuple[Setting, ...]
    destination: tuple[Setting, ...]
    max_hosts: int = 1
    has_virtual_hosts: bool = False
    discovery_note: str = ""
    preview_note: str = ""

    @property
    def can_be_observed(self) -> bool:
        """True when messages can be read without a trace."""
        return not self.preview_note

    @property
    def redirects(self) -> tuple[str, ...]:
        """The settings of a destination that send messages elsewhere than where they failed."""
        return tuple(setting.name for setting in self.destination if setting.is_redirect)


_VERIFY_TLS = switch("Verify the broker’s certificate", flag, default=True)
_SASL = choice("SASL mechanism", one_of(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")), default="PLAIN")
_READERS = number("Readers of each queue", whole(1, 8), default=2)
_SOURCE = named(
    address=text(
        "Address of its messages",
        address_template,
        default="{original}",
        note="{original} is the queue where a message failed, {queue} the one that is drained.",
    ),
    verify_tls=_VERIFY_TLS,
)
_DESTINATION = named(
    confirm_within_ms=duration(
        "Consumer confirms within",
        1000,
        31 * 86_400_000 - 1,
        default=None,
        hint="no confirmation is expected",
        note="After this time the message counts as unconfirmed.",
    ),
    timeout_ms=duration("Broker confirms within", 100, 300_000, default=30_000),
    batch=number("Messages per batch", whole(1, 5000), default=500),
    concurrency=number("Connections", whole(1, 16), default=2),
    verify_tls=_VERIFY_TLS,
)
_BACK = "where each message came from"
_TO_QUEUE = text("Redirect to this queue", printable, default=None, hint=_BACK, is_redirect=True)

BROKERS: Mapping[str, BrokerKind] = {
    kind.name: kind
    for kind in (
        BrokerKind(
            RABBITMQ,
            "RabbitMQ",
            schemes={"amqp": 5672, "amqps": 5671},
            tls_schemes=frozenset({"amqps"}),
            url_form="amqp(s)://host/vhost",
            example="amqp://rabbit.example.org:5672/vhost",
            drained="queues",
            check_name=printable,
            source=(
                *_SOURCE,
                *named(
                    readers=_READERS,
                    management_url=text(
                        "Management URL",
                        http_url,
                        default=None,
                        is_guarded=True,
                        hint="http://rabbit.example.org:15672",
                        note="Where the management plugin answers; needed to find queues.",
                    ),
                ),
            ),
            destination=(
                *named(
                    queue=_TO_QUEUE,
                    exchange=text("Redirect to this exchange", printable, default=None, is_redirect=True),
                    routing_key=text("Routing key for the exchange", printable_or_empty, default=None),
                ),
                *_DESTINATION,
            ),
            has_virtual_hosts=True,
            discovery_note="RabbitMQ is asked through its management plugin: the management URL says where it answers.",
            preview_note="A quorum queue counts a preview as a delivery.",
        ),
        BrokerKind(
            ARTEMIS,
            "ActiveMQ Artemis",
            schemes={"stomp": 61613, "stomp+ssl": 61612},
            tls_schemes=frozenset({"stomp+ssl"}),
            url_form="stomp(+ssl)://host",
            example="stomp://artemis.example.org:61613",
            drained="queues",
            check_name=printable,
            source=(*_SOURCE, *named(readers=_READERS)),
            destination=(*named(queue=_TO_QUEUE), *_DESTINATION),
        ),
        BrokerKind(
            KAFKA,
            "Kafka",
            schemes={"kafka": 9092, "kafka+ssl": 9093},
            tls_schemes=frozenset({"kafka+ssl"}),
            url_form="kafka(+ssl)://one,two",
            example="kafka://one.example.org:9092,two.example.org:9092",
            drained="topics",
            check_name=topic,
            source=(
                *_SOURCE,
                *named(
                    group=text(
                        "Consumer group",
                        printable,
                        default=None,
                        hint="poisonadmin-<name of the source>",
                        stored="poisonadmin-{name}",
                    ),
                    sasl_mechanism=_SASL,
                ),
            ),
            destination=(
                *named(
                    topic=text("Redirect to this topic", topic, default=None, hint=_BACK, is_redirect=True),
                ),
                *_DESTINATION,
                *named(sasl_mechanism=_SASL),
            ),
            max_hosts=20,
        ),
    )
}
SOURCE_DEFAULTS = {kind.name: {setting.name: setting.default for setting in kind.source} for kind in BROKERS.values()}
DESTINATION_DEFAULTS = {
    kind.name: {setting.name: setting.default for setting in kind.destination} for kind in BROKERS.values()
}


def source_settings() -> list[tuple[Setting, list[BrokerKind]]]:
    """Return each setting of a source once, with the kinds that have it."""
    return _once((kind, setting) for kind in BROKERS.values() for setting in kind.source)


def destination_settings() -> list[tuple[Setting, list[BrokerKind]]]:
    """Return each setting of a destination once, with the kinds that have it."""
    return _once((kind, setting) for kind in BROKERS.values() for setting in kind.destination)


def _once(pairs: Iterable[tuple[BrokerKind, Setting]]) -> list[tuple[Setting, list[BrokerKind]]]:
    found: dict[str, tuple[Setting, list[BrokerKind]]] = {}
    for kind, setting in pairs:
        found.setdefault(setting.name, (setting, []))[1].append(kind)
    return list(found.values())


def note_of(setting: Setting, kinds: Sequence[BrokerKind]) -> str:
    """Return the note of a setting, with the kinds that have it where not all have.

    >>> [note_of(setting, kinds) for setting, kinds in source_settings() if setting.name == "readers"]
    ['For RabbitMQ and ActiveMQ Artemis.']
    """
    of = "" if len(kinds) == len(BROKERS) else f"For {' and '.join(kind.words for kind in kinds)}."
    return f"{of} {setting.note}".strip()


def optional(settings: Sequence[Setting]) -> str:
    """Return settings as the API's document lists those that may be left out.

    >>> optional(BROKERS["artemis"].source)
    'address?, verify_tls?, readers?'
    """
    return ", ".join(f"{setting.name}?" for setting in settings)


def kind_of_url(url: str) -> str | None:
    """Return the kind of broker whose scheme the URL has; None where no kind has it.

    >>> kind_of_url("stomp+ssl://artemis.example.org"), kind_of_url("http://example.org")
    ('artemis', None)
    """
    scheme = url.partition("://")[0]
    return next((kind.name for kind in BROKERS.values() if scheme in kind.schemes), None)


def words_of(kind: str) -> str:
    """Return what a kind of broker is called; the kind itself where it is none.

    >>> words_of("rabbitmq"), words_of("pigeons")
    ('RabbitMQ', 'pigeons')
    """
    return BROKERS[kind].words if kind in BROKERS else kind
