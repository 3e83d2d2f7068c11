"""One HTTP POST of an alert, over the connections of HTTP destinations: checked addresses, no redirects, one answer."""

import asyncio
import os
from collections.abc import Mapping

from yarl import URL

from poisonadmin.alerts.channels.contract import PostAnswer
from poisonadmin.core.domain.ssrf import NetworkGuard, guard_from
from poisonadmin.destinations.domain.http_config import is_sendable
from workers.delivery.http.failures import transport_failure
from workers.delivery.http.pool import Pool, tls_context
from workers.delivery.http.reader import IncomingAnswer
from workers.delivery.http.resolver import GuardedResolver

TIMEOUT_SECONDS = 10.0
KEPT_BYTES = 1000
_DEFAULTS = {"User-Agent": "PoisonAdmin", "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}


def post(url: str, headers: Mapping[str, str], body: bytes) -> PostAnswer:
    """Send one request and return its answer, or why there is none; never raises."""
    place = URL(url)
    try:
        answer = asyncio.run(_answer(place, headers, body, guard_from(os.environ)))
    except Exception as error:  # whatever it is, it is this try's outcome
        failure = transport_failure(error, place=f"{place.host}:{place.port}", timeout_ms=int(TIMEOUT_SECONDS * 1000))
        return PostAnswer(None, failure.message)
    head = answer.head
    assert head is not None
    if 300 <= head.status < 400:
        return PostAnswer(head.status, "redirects are not followed")
    return PostAnswer(head.status, answer.kept[:KEPT_BYTES].decode("utf-8", "replace"))


async def _answer(url: URL, headers: Mapping[str, str], body: bytes, guard: NetworkGuard) -> IncomingAnswer:
    assert url.raw_host is not None
    assert url.port is not None
    pool = Pool(
        GuardedResolver(url.raw_host, url.port, guard),
        guard,
        tls=tls_context(is_verified=True) if url.scheme == "https" else None,
        server_name=url.raw_host.rstrip("."),
    )
    answer = IncomingAnswer(keep=KEPT_BYTES)
    deadline = asyncio.get_running_loop().time() + TIMEOUT_SECONDS
    try:
        async with asyncio.timeout_at(deadline):
            connection = await pool.take(deadline=deadline)
            await connection.request(_head(url, headers, body), body, answer)
            await connection.read()
    finally:
        await pool.close()
    return answer


def _head(url: URL, headers: Mapping[str, str], body: bytes) -> bytes:
    fields = {**_DEFAULTS, **headers, "Content-Length": str(len(body))}
    assert all(is_sendable(name, value) for name, value in fields.items())
    lines = [f"POST {url.raw_path_qs} HTTP/1.1", f"Host: {url.host_port_subcomponent}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in fields.items()), "", ""]).encode()
