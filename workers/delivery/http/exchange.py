"""An HTTP destination as a task uses it; one request, and the result of it in its attempt."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from yarl import URL

from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import (
    CONNECTION_LOST,
    COPIED_BY_DEFAULT,
    DEFAULTS,
    validate_headers,
    validate_http_config,
)
from poisonadmin.groups.domain.failures import Failure, http_status_failure
from poisonadmin.messages.domain.attempt import AttemptRecord
from poisonadmin.messages.domain.outcome import Outcome
from poisonadmin.policies.domain.retry_schedule import retry_after_ms
from workers.delivery.deliveries import Delivery
from workers.delivery.http.answers import HEADER, VERSION_HEADER, InvalidOutcome, parse_outcome
from workers.delivery.http.failures import HTTP_CONNECTION_RESET, transport_failure
from workers.delivery.http.head import Head
from workers.delivery.http.hiding import Hiding
from workers.delivery.http.pool import Pool, tls_context
from workers.delivery.http.reader import IncomingAnswer
from workers.delivery.http.request import RequestWriter
from workers.delivery.http.resolver import GuardedResolver, Lookup, system_lookup
from workers.delivery.outcomes import MAX_MESSAGE_CHARS, MAX_VERSION_CHARS, fail, roll_back, storable

INVALID_ANSWER = "InvalidAnswer"
CONSUMER_CONNECTION_LOST = "ConsumerConnectionLost"
KEPT_BYTES = 4096
# The status has decided by now; the rest of the answer is only for the failure log.
BODY_SECONDS = 2.0


@dataclass(frozen=True)
class HttpDestination:
    """An HTTP consumer to send to. `concurrency`: requests at once in this task. `headers` include the secret ones,
    whose values are the `secret_values`.

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


class Exchange:
    """The connections of one run to one destination; close it when the run ends. `now`: the run's clock."""

    def __init__(
        self,
        destination: HttpDestination,
        guard: NetworkGuard,
        lookup: Lookup = system_lookup,
        *,
        now: Callable[[], datetime],
    ) -> None:
        url = URL(destination.url)
        assert url.raw_host is not None
        assert url.port is not None
        self._loop = asyncio.get_running_loop()
        self._now = now
        self._owner = destination.owner
        self._crash_on = destination.crash_on
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

    async def post(self, delivery: Delivery, attempt: AttemptRecord) -> None:
        """Send the delivery and write the result into its attempt; never raises but for cancellation.

        One request is sent, whatever becomes of it: a second one would be an attempt that nobody knows of.
        """
        try:
            answer = await self._answer(delivery)
        except Exception as error:  # whatever it is, it is this attempt's outcome
            self._fail(attempt, transport_failure(error, place=self._place, timeout_ms=self._timeout_ms))
            return
        head = answer.head
        assert head is not None
        attempt.status_code, wanted = head.status, head.fields.get(HEADER.lower())
        if wanted is None and 200 <= head.status < 300:
            return
        body = self._hiding.in_bytes(answer.kept, KEPT_BYTES)
        attempt.response = body or None
        attempt.consumer_version = self._version(head)
        if wanted is not None:
            self._write_wanted(wanted, delivery, attempt)
            return
        reason, excerpt = (self._hiding.in_text(text) for text in (head.reason, _excerpt(head, body)))
        fail(attempt, http_status_failure(head.status, reason, excerpt))
        if (wish := head.fields.get("retry-after")) is not None:
            attempt.retry_after_ms = retry_after_ms(wish, now=self._now())

    def _fail(self, attempt: AttemptRecord, failure: Failure) -> None:
        """Write into an attempt why there is no answer.

        Where a lost connection counts as a crash: the request was sent, and there will be no answer.
        """
        message, stack = self._hiding.in_text(failure.message), self._hiding.in_text(failure.stack)
        failure = replace(failure, message=message, stack=stack)
        if self._crash_on == CONNECTION_LOST and failure.exception_class == HTTP_CONNECTION_RESET:
            fail(attempt, replace(failure, exception_class=CONSUMER_CONNECTION_LOST), Outcome.CRASHED)
        else:
            fail(attempt, failure)

    def _version(self, head: Head) -> str | None:
        version = self._hiding.in_text(head.fields.get(VERSION_HEADER.lower(), ""))
        return storable(version, MAX_VERSION_CHARS) if version else None

    def _write_wanted(self, wanted: str, delivery: Delivery, attempt: AttemptRecord) -> None:
        """Write into an attempt the outcome that its consumer wants, whatever the status says."""
        try:
            outcome = parse_outcome(self._hiding.in_text(wanted), address=delivery.address, owner=self._owner)
        except InvalidOutcome as error:
            fail(attempt, Failure(INVALID_ANSWER, error.detail))
            return
        why = None if outcome.why is None else storable(outcome.why, MAX_MESSAGE_CHARS)
        if outcome.outcome is Outcome.ROLLED_BACK:
            roll_back(attempt, why)
            return
        attempt.outcome, attempt.error_message = outcome.outcome, why
        attempt.move_to, attempt.error_code = outcome.address, outcome.error_code

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
