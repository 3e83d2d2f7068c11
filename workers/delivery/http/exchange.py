"""An HTTP destination as a task uses it; one request and its answer, or why there is none."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from yarl import URL

from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import (
    COPIED_BY_DEFAULT,
    DEFAULTS,
    validate_headers,
    validate_http_config,
)
from poisonadmin.messages.domain.failures import Failure, http_status_failure
from workers.delivery.deliveries import Delivery
from workers.delivery.http.answers import HEADER, VERSION_HEADER, ConsumerOutcome, InvalidOutcome, parse_outcome
from workers.delivery.http.failures import transport_failure
from workers.delivery.http.head import Head
from workers.delivery.http.hiding import Hiding
from workers.delivery.http.pool import Pool, tls_context
from workers.delivery.http.reader import IncomingAnswer
from workers.delivery.http.request import RequestWriter
from workers.delivery.http.resolver import GuardedResolver, Lookup, system_lookup

INVALID_ANSWER = "InvalidAnswer"
KEPT_BYTES = 4096
# The status has decided by now; the rest of the answer is only for the failure log.
BODY_SECONDS = 2.0


@dataclass(frozen=True)
class HttpDestination:
    """Where to send and how. `concurrency`: requests at once in this task. `headers` include the secret ones, whose
    values are the `secret_values`.

    `owner`: the pattern of the addresses that its consumer may move messages to. `broken`: why the configuration cannot
    be used; each delivery then fails with that.
    """

    id: int
    name: str
    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_values: tuple[str, ...] = field(default=(), repr=False)
    timeout_ms: int = 30_000
    concurrency: int = 64
    verify_tls: bool = True
    copy_headers: tuple[str, ...] = COPIED_BY_DEFAULT
    crash_on: str | None = None
    owner: str = ANY_WORDS
    broken: str | None = None


def parse_http_config(
    config: Mapping[str, Any],
    secrets: Mapping[str, Any] | None = None,
    *,
    id: int = 0,  # noqa: A002
    name: str = "",
    owner: str = ANY_WORDS,
    concurrency: int | None = None,
) -> HttpDestination:
    """Return the destination; raise InvalidDestination naming the field that cannot be used.

    `secrets` are further headers, which win over those of the configuration. `concurrency`: this task's share of the
    configured one.
    """
    wanted = DEFAULTS | validate_http_config(config)
    hidden = validate_headers(secrets or {}, field="secrets")
    secret_names = {name.lower() for name in hidden}
    shown = {name: value for name, value in wanted["headers"].items() if name.lower() not in secret_names}
    return HttpDestination(
        id=id,
        name=name,
        url=wanted["url"],
        method=wanted["method"],
        headers=shown | hidden,
        secret_values=tuple(hidden.values()),
        timeout_ms=wanted["timeout_ms"],
        concurrency=wanted["concurrency"] if concurrency is None else concurrency,
        verify_tls=wanted["verify_tls"],
        copy_headers=tuple(wanted["copy_headers"]),
        crash_on=wanted["crash_on"],
        owner=owner,
    )


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back: a status where there was one, else the failure says why not.

    `outcome`: what the consumer wants done, whatever the status says. `retry_after` is as it was sent, and so is
    `consumer_version`, of an answer that is no plain success.
    """

    status: int | None = None
    failure: Failure | None = None
    retry_after: str | None = None
    body: bytes | None = None
    outcome: ConsumerOutcome | None = None
    consumer_version: str | None = None


class Exchange:
    """The connections of one run to one destination; close it when the run ends."""

    def __init__(self, destination: HttpDestination, guard: NetworkGuard, lookup: Lookup = system_lookup) -> None:
        url = URL(destination.url)
        assert url.raw_host is not None
        assert url.port is not None
        self._loop = asyncio.get_running_loop()
        self._owner = destination.owner
        self._hiding = Hiding(destination.secret_values)
        self._timeout_ms = destination.timeout_ms
        self._place = f"{url.host}:{url.port}"
        self._writer = RequestWriter(destination.method, url, destination.headers, destination.copy_headers)
        self._pool = Pool(
            GuardedResolver(url.raw_host, url.port, guard, lookup),
            guard,
            tls=tls_context(is_verified=destination.verify_tls) if url.scheme == "https" else None,
            server_name=url.raw_host.rstrip("."),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def post(self, delivery: Delivery) -> HttpAnswer:
        """Send the delivery and return the answer; never raises but for cancellation.

        One request is sent, whatever becomes of it: a second one would be an attempt that nobody knows of.
        """
        try:
            answer = await self._answer(delivery)
        except Exception as error:  # whatever it is, it is this attempt's outcome
            failure = transport_failure(error, place=self._place, timeout_ms=self._timeout_ms)
            message, stack = self._hiding.in_text(failure.message), self._hiding.in_text(failure.stack)
            return HttpAnswer(failure=replace(failure, message=message, stack=stack))
        head = answer.head
        assert head is not None
        status, wanted = head.status, head.fields.get(HEADER.lower())
        if wanted is None and 200 <= status < 300:
            return HttpAnswer(status=status)
        body = self._hiding.in_bytes(answer.kept, KEPT_BYTES)
        version = self._hiding.in_text(head.fields.get(VERSION_HEADER.lower(), "")) or None
        if wanted is not None:
            return replace(self._wanted(status, wanted, body, delivery), consumer_version=version)
        reason, excerpt = (self._hiding.in_text(text) for text in (head.reason, _excerpt(head, body)))
        return HttpAnswer(
            status=status,
            failure=http_status_failure(status, reason, excerpt),
            retry_after=head.fields.get("retry-after"),
            body=body,
            consumer_version=version,
        )

    def _wanted(self, status: int, wanted: str, body: bytes, delivery: Delivery) -> HttpAnswer:
        try:
            outcome = parse_outcome(self._hiding.in_text(wanted), address=delivery.address, owner=self._owner)
        except InvalidOutcome as error:
            return HttpAnswer(status=status, failure=Failure(INVALID_ANSWER, error.detail), body=body)
        return HttpAnswer(status=status, body=body, outcome=outcome)

    async def _answer(self, delivery: Delivery) -> IncomingAnswer:
        """Return the answer with what is wanted of its body; afterwards its connection is free again, or closed."""
        head = self._writer.head(delivery)
        answer = IncomingAnswer(keep=KEPT_BYTES + self._hiding.margin)
        deadline = self._loop.time() + self._timeout_ms / 1000
        async with asyncio.timeout_at(deadline):
            connection = await self._pool.take(deadline=deadline)
            try:
                await connection.request(head, delivery.payload, answer)
            except BaseException:
                connection.close()
                raise
        try:
            if not answer.is_read:
                # The status has decided by now, whatever becomes of the rest.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(min(deadline, self._loop.time() + BODY_SECONDS)):
                        await connection.read()
        finally:
            self._pool.give_back(connection)
        return answer


def _excerpt(head: Head, body: bytes) -> str:
    if 300 <= head.status < 400:
        return f"redirects are not followed (to {head.fields.get('location', 'nowhere')})"
    # A compressed answer is kept as it came: nothing here unpacks what a stranger sent.
    if head.fields.get("content-encoding", "identity") != "identity":
        return ""
    return body.decode("utf-8", "replace")
