"""An HTTP destination as a task uses it, and the way out to it: one request, and the result of it in its attempt."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from yarl import URL

from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import (
    CONNECTION_LOST,
    COPIED_BY_DEFAULT,
    DEFAULTS,
    InvalidDestination,
    validate_headers,
    validate_http_config,
)
from poisonadmin.groups.domain.failures import Failure, http_status_failure
from poisonadmin.messages.domain.attempt import AttemptRecord
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.policies.domain.retry_schedule import retry_after_ms
from workers.delivery.deliveries import (
    MAX_MESSAGE_CHARS,
    MAX_VERSION_CHARS,
    ConfiguredDestination,
    Delivery,
    TaskDestination,
    attempt_row,
    end_conversation,
    fail,
    roll_back,
    storable,
)
from workers.delivery.http.answers import (
    HEADER,
    HTTP_CONNECTION_RESET,
    INVALID_ANSWER,
    VERSION_HEADER,
    Hiding,
    InvalidOutcome,
    parse_outcome,
    transport_failure,
)
from workers.delivery.http.connection import Pool
from workers.delivery.http.reader import Head, IncomingAnswer
from workers.delivery.http.request import RequestWriter
from workers.delivery.http.resolver import Lookup
from workers.delivery.run import Run, instant
from workers.delivery.scheduler import Buffer
from workers.delivery.sender import Sender

CONSUMER_CONNECTION_LOST = "ConsumerConnectionLost"
KEPT_BYTES = 4096
# The status has decided by now; the rest of the answer is only for the failure log.
BODY_SECONDS = 2.0


@dataclass(frozen=True)
class HttpDestination(TaskDestination):
    """An HTTP consumer to send to. `concurrency`: requests at once in this task. `headers` include the secret ones,
    whose values are the `secret_values`.
    """

    url: str = ""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_values: tuple[str, ...] = field(default=(), repr=False)
    timeout_ms: int = 30_000
    concurrency: int = 64
    verify_tls: bool = True
    copy_headers: tuple[str, ...] = COPIED_BY_DEFAULT
    crash_on: str | None = None


def parse_http_config(row: ConfiguredDestination) -> HttpDestination:
    """Return the destination; raise InvalidDestination naming the field that cannot be used.

    The secrets are further headers, which win over those of the configuration.
    """
    wanted = DEFAULTS | validate_http_config(row.config)
    hidden = validate_headers(row.secrets or {}, field="secrets")
    secret_names = {name.lower() for name in hidden}
    shown = {name: value for name, value in wanted["headers"].items() if name.lower() not in secret_names}
    return HttpDestination(
        row.id,
        row.name,
        owner=row.owner,
        url=wanted["url"],
        method=wanted["method"],
        headers=shown | hidden,
        secret_values=tuple(hidden.values()),
        timeout_ms=wanted["timeout_ms"],
        concurrency=wanted["concurrency"] if row.slots is None else row.slots,
        verify_tls=wanted["verify_tls"],
        copy_headers=tuple(wanted["copy_headers"]),
        crash_on=wanted["crash_on"],
    )


class Exchange:
    """The connections of one run to one destination; close it when the run ends."""

    def __init__(self, run: Run, destination: HttpDestination, guard: NetworkGuard, lookup: Lookup) -> None:
        url = URL(destination.url)
        self._loop = asyncio.get_running_loop()
        self._run = run
        self._owner = destination.owner
        self._crash_on = destination.crash_on
        self._hiding = Hiding(destination.secret_values)
        self._timeout_ms = destination.timeout_ms
        self._place = f"{url.host}:{url.port}"
        self._writer = RequestWriter(destination.method, url, destination.headers, destination.copy_headers)
        self._pool = Pool(url, guard, lookup, verify_tls=destination.verify_tls)

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
        attempt.consumer_version = self._version(head)
        if wanted is None and 200 <= head.status < 300:
            return
        body = self._hiding.in_bytes(answer.kept, KEPT_BYTES)
        attempt.response = body or None
        if wanted is not None:
            self._write_wanted(wanted, delivery, attempt)
            return
        reason, excerpt = (self._hiding.in_text(text) for text in (head.reason, _excerpt(head, body)))
        fail(attempt, http_status_failure(head.status, reason, excerpt))
        if (wish := head.fields.get("retry-after")) is not None:
            attempt.retry_after_ms = retry_after_ms(wish, now=instant(self._run.now()))

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
        attempt.outcome, attempt.move_to = outcome.outcome, outcome.address
        end_conversation(attempt, outcome.error_code, why)

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


class HttpSender(Sender):
    """Each worker sends one request after the other; they share the connections."""

    def __init__(
        self, run: Run, destination: HttpDestination, guard: NetworkGuard, lookup: Lookup, *, waiting: Buffer
    ) -> None:
        super().__init__(run, destination.id, destination.concurrency, waiting)
        self._destination = destination
        self._guard, self._lookup = guard, lookup
        self._exchange: Exchange | None = None

    async def close(self) -> None:
        """Wait for what was begun, close the connections."""
        await self._workers_gone()
        if self._exchange is not None:
            await self._exchange.close()

    async def _work(self) -> None:
        while self._may_begin() and (delivery := self._scheduler.next()) is not None:
            await self._deliver(delivery)

    async def _deliver(self, delivery: Delivery) -> None:
        run = self._run
        if run.node.is_isolation:
            await run.node.mark(delivery)
        run.begin([delivery], self._tally)
        now = instant(run.now())
        attempt = attempt_row(run, delivery, Outcome.DELIVERED, (now, now))
        if self._destination.broken is not None:
            fail(attempt, Failure(InvalidDestination.__name__, self._destination.broken))
        else:
            if self._exchange is None:
                self._exchange = Exchange(run, self._destination, self._guard, self._lookup)
            await self._exchange.post(delivery, attempt)
        attempt.finished_at = instant(run.now())
        self._finish(delivery, attempt, in_transport=attempt.error_class is not None and attempt.status_code is None)
