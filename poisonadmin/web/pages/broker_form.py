"""The forms of a broker, as a source and as a destination: an empty field means its default."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.destinations.domain.http_config import InvalidDestination
from poisonadmin.sources.domain.broker_urls import ARTEMIS, KAFKA, RABBITMQ
from poisonadmin.sources.domain.brokers import BROKER_KINDS, SASL_MECHANISMS, InvalidSource

Refuse = Callable[[str, str], PoisonAdminError]
KIND_WORDS = {RABBITMQ: "RabbitMQ", ARTEMIS: "ActiveMQ Artemis", KAFKA: "Kafka"}


@dataclass(frozen=True)
class Column:
    """One setting as the form offers it, for brokers of `kinds`. `lines`: one value a line."""

    name: str
    label: str
    hint: str = ""
    note: str = ""
    kinds: tuple[str, ...] = BROKER_KINDS
    is_number: bool = False
    lines: bool = False
    choices: tuple[str, ...] = ()
    text: str = ""

    @property
    def kind_names(self) -> str:
        """The kinds that have it, for the page's script."""
        return " ".join(self.kinds)


_QUEUES = (RABBITMQ, ARTEMIS)
_SASL = Column("sasl_mechanism", "SASL mechanism (Kafka)", kinds=(KAFKA,), choices=SASL_MECHANISMS)
SOURCE_COLUMNS = (
    Column(
        "queues",
        "Queues of dead letters, for Kafka topics: one a line",
        "orders.dlq",
        "They are drained: what is stored here is acknowledged there.",
        lines=True,
    ),
    Column(
        "address",
        "Address of its messages",
        "{original}",
        "{original} is the queue where a message failed, {queue} the one that is drained.",
    ),
    Column("readers", "Readers of each queue (RabbitMQ, Artemis)", "2", kinds=_QUEUES, is_number=True),
    Column(
        "management_url",
        "Management URL (RabbitMQ)",
        "http://rabbit.example.org:15672",
        "For finding queues.",
        kinds=(RABBITMQ,),
    ),
    Column("group", "Consumer group (Kafka)", "poisonadmin-<name of the source>", kinds=(KAFKA,)),
    _SASL,
)
DESTINATION_COLUMNS = (
    Column("queue", "Redirect to this queue (RabbitMQ, Artemis)", "where each message came from", kinds=_QUEUES),
    Column("exchange", "Redirect to this exchange (RabbitMQ)", kinds=(RABBITMQ,)),
    Column("routing_key", "Routing key there (RabbitMQ)", kinds=(RABBITMQ,)),
    Column("topic", "Redirect to this topic (Kafka)", "where each message came from", kinds=(KAFKA,)),
    Column(
        "confirm_within_ms",
        "The consumer confirms within (ms)",
        "no confirmation is awaited",
        "Unanswered after it, a message is counted as such.",
        is_number=True,
    ),
    Column("timeout_ms", "The broker confirms within (ms)", "30000", is_number=True),
    Column("batch", "Messages at a time", "500", is_number=True),
    Column("concurrency", "Connections", "2", is_number=True),
    _SASL,
)


@dataclass(frozen=True)
class BrokerForm:
    """The form as typed. `texts` holds what is not left empty; `version` None: it is new.

    A login that is left empty keeps the stored one, unless `forgets_login`.
    """

    columns: Sequence[Column]
    refuse: Refuse
    name: str = ""
    kind: str = RABBITMQ
    url: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    forgets_login: bool = False
    verify_tls: bool = True
    version: int | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the operation to check; raise for a number that is none."""
        config: dict[str, Any] = {"url": self.url}
        for column in self.columns:
            text = self.texts.get(column.name, "")
            if not text or self.kind not in column.kinds:
                continue
            name = "topics" if column.name == "queues" and self.kind == KAFKA else column.name
            config[name] = self._value(column, text)
        if not self.verify_tls:
            config["verify_tls"] = False
        return config

    def secrets(self) -> dict[str, str] | None:
        """Return the login, None where the stored one is to be kept."""
        given = {"username": self.username, "password": self.password}
        typed = {name: text for name, text in given.items() if text}
        return typed if typed or self.forgets_login else None

    def typed(self) -> list[Column]:
        """Return the columns with what was typed."""
        return [replace(column, text=self.texts.get(column.name, "")) for column in self.columns]

    def _value(self, column: Column, text: str) -> Any:
        if column.lines:
            return [line.strip() for line in text.splitlines() if line.strip()]
        if not column.is_number:
            return text
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise self.refuse(column.name, "must be a whole number")
        return int(text)


def source_form() -> BrokerForm:
    """Return the form of a new source."""
    return BrokerForm(SOURCE_COLUMNS, InvalidSource)


def destination_form() -> BrokerForm:
    """Return the form of a new destination."""
    return BrokerForm(DESTINATION_COLUMNS, InvalidDestination)


def filled(empty: BrokerForm, *, name: str, kind: str, version: int, config: Mapping[str, Any]) -> BrokerForm:
    """Return the form of what is configured; of its login nothing is known here."""
    values: dict[str, Any] = {**config, "queues": config.get("queues") or config.get("topics")}
    texts = {column.name: _text(values.get(column.name)) for column in empty.columns}
    return replace(
        empty,
        name=name,
        kind=kind,
        version=version,
        url=str(config.get("url", "")),
        verify_tls=bool(config.get("verify_tls", True)),
        texts={name: text for name, text in texts.items() if text},
    )


def read(empty: BrokerForm, posted: Mapping[str, Any]) -> BrokerForm:
    """Return the form as it was sent."""
    version = _clean(posted.get("version"))
    texts = {column.name: _clean(posted.get(column.name)) for column in empty.columns}
    return replace(
        empty,
        name=_clean(posted.get("name")),
        kind=kind if (kind := _clean(posted.get("kind"))) in BROKER_KINDS else RABBITMQ,
        url=_clean(posted.get("url")),
        username=_clean(posted.get("username")),
        password=str(posted.get("password") or ""),
        forgets_login=posted.get("forget_login") == "true",
        verify_tls=posted.get("verify_tls") == "true",
        version=int(version) if version.isascii() and version.isdigit() and len(version) < 10 else None,
        texts={name: text for name, text in texts.items() if text},
    )


def wrong_field(error: PoisonAdminError) -> str:
    """Return the form's name of the field that is wrong, empty where the error is about none."""
    name = str(getattr(error, "field", ""))
    return "queues" if name == "topics" else "username" if name == "secrets" else name


def _clean(text: object) -> str:
    return str(text or "").replace("\x00", "").strip()


def _text(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(str(item) for item in value)
    return "" if value is None else str(value)
