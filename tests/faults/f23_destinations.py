"""F23: destinations that are slow, hang, break off, answer 5xx, speak bad TLS or are not there, all at once."""

import contextlib
import json
import os
import socket
import ssl
import time

import trustme

from tests.faults.run import Fault, Scene
from tests.whole_system.consumer import Answer, Behaviour, consuming
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import until

PROMPT_SECONDS = 10
MESSAGES_EACH = 60
# What hangs elsewhere must not make the others later than this.
LATENESS_SECONDS = 1.5

BAD: dict[str, Behaviour] = {
    "slow": lambda _: Answer(seconds=0.8),
    "hanging": lambda _: Answer(seconds=6.0),
    "resetting": lambda _: Answer(0),
    "failing": lambda _: Answer(500),
}
SETTINGS = {"max_delivery_attempts": 2, "redelivery_delay": 500}


def bad_destinations(scene: Scene) -> str:
    """Send messages to every kind of bad destination at once, and look at what becomes of the good one."""
    bad = dict(BAD)
    names = scene.dice.sample(sorted(bad), 3)
    with contextlib.ExitStack() as open_until_the_end:
        destinations = []
        for kind in names:
            consumer = open_until_the_end.enter_context(consuming(bad[kind]))
            destinations.append(_open(scene, kind, consumer.url, timeout_ms=2000 if kind == "hanging" else 30_000))
        destinations.append(_open(scene, "tls", open_until_the_end.enter_context(consuming(tls=_bad_tls())).url))
        destinations.append(_open(scene, "refused", f"http://127.0.0.1:{_closed_port()}/"))
        began = time.time()
        for destination in destinations:
            _send(destination)
        prompt = [destination for destination in destinations if _kind(destination) not in {"slow", "hanging"}]
        until(lambda: all(_is_decided(destination) for destination in prompt), 200, lambda: _states(destinations))
        took = time.time() - began
        failing = [destination for destination in destinations if _kind(destination) in CAUSES]
        until(lambda: all(_has_failed(destination) for destination in failing), 30, lambda: _states(destinations))
        _check_causes(destinations)
        for destination in destinations:
            scene.installation.post(f"destinations/{destination.name}/disable/", {"reason": "seen enough"})
    before, late = _lateness(scene, 0, began), _lateness(scene, began, time.time())
    # On a machine that is busy otherwise the good one is late by itself, and later in the proportion of the load.
    limit = max(LATENESS_SECONDS, 2 * before) * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert late <= limit, f"p95 {late:.1f} s late beside {', '.join(names)}, {before:.1f} s before"
    bad = f"{', '.join(names)}, bad TLS, refused"
    return f"{bad}: decided after {took:.0f} s; p95 {late:.2f} s late, {before:.2f} s before"


def _open(scene: Scene, kind: str, url: str, **config: object) -> HttpDestination:
    name = f"{scene.destination.name}-{kind}"
    installation = scene.installation
    destination = {"url": url, "concurrency": 8} | config
    installation.post("destinations/", {"name": name, "kind": "http", "config": destination})
    installation.post("policies/", {"match": f"{name}.#", "settings": SETTINGS, "destination": name})
    return HttpDestination(installation, name, scene.destination.consumer)


def _send(destination: HttpDestination) -> None:
    lines = [json.dumps({"address": destination.address, "payload": f"{n}"}) for n in range(MESSAGES_EACH)]
    destination.installation.ask("POST", "messages/batch/", "\n".join(lines).encode()).expect(202)


def _kind(destination: HttpDestination) -> str:
    return destination.name.rpartition("-")[2]


def _is_decided(destination: HttpDestination) -> bool:
    waiting = """
        SELECT count(*) FROM message JOIN address ON address.id = address_id
        WHERE name = %s AND state IN ('TBDL', 'DLNG')
    """
    return destination.installation.rows(waiting, [destination.address]) == [(0,)]


def _states(destinations: list[HttpDestination]) -> object:
    query = "SELECT name, state, count(*) FROM message JOIN address ON address.id = address_id GROUP BY 1, 2"
    return [
        row
        for row in destinations[0].installation.rows(query)
        if row[0] in {destination.address for destination in destinations}
    ]


CAUSES = {
    "hanging": "HttpTimeout",
    "resetting": "HttpConnectionReset",
    "failing": "HttpStatusError",
    "tls": "HttpTlsError",
    "refused": "HttpConnectionRefused",
}


def _check_causes(destinations: list[HttpDestination]) -> None:
    """Each kind fails with a class of its own, and claims of what does not answer at all become small."""
    for destination in destinations:
        kind = _kind(destination)
        if kind not in CAUSES:
            continue
        query = """
            SELECT array_agg(DISTINCT error_class) FROM attempt JOIN message ON message.id = message_id
            JOIN address ON address.id = address_id WHERE name = %s AND outcome = 'failed'
        """
        ((classes,),) = destination.installation.rows(query, [destination.address])
        assert set(classes) == {CAUSES[kind]}, f"{kind} failed with {classes}"
        if kind != "failing":
            until(lambda destination=destination: _is_slowed(destination), 30, lambda kind=kind: kind)  # type: ignore[misc]


def _is_slowed(destination: HttpDestination) -> bool:
    query = "SELECT slowed_by FROM destination WHERE name = %s"
    ((why,),) = destination.installation.rows(query, [destination.name])
    return why is not None


def _has_failed(destination: HttpDestination) -> bool:
    """Return whether an attempt at it has ended; the first of one that hangs takes as long as its time-out."""
    failed = """
        SELECT EXISTS (SELECT FROM attempt JOIN message ON message.id = message_id
                       JOIN address ON address.id = address_id WHERE name = %s AND outcome = 'failed')
    """
    return destination.installation.rows(failed, [destination.address]) == [(True,)]


def _lateness(scene: Scene, since: float, until_then: float) -> float:
    """Return the 95th percentile of the seconds from acceptance to the good consumer, for what was accepted then."""
    query = "SELECT id, extract(epoch FROM received_at)::float FROM envelope WHERE message_id = ANY(%s)"
    received = dict(scene.installation.rows(query, [scene.load.sent]))
    waits = sorted(
        one.at - received[one.message_id]
        for one in list(scene.destination.consumer.arrivals)
        if one.attempt == 1 and since < received.get(one.message_id, 0.0) <= until_then
    )
    return waits[int(len(waits) * 0.95)] if waits else 0.0


def _bad_tls() -> ssl.SSLContext:
    """Return a server's context with a certificate that nobody trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


def _closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


FAULTS = (Fault("F23", "bad destinations", bad_destinations, PROMPT_SECONDS),)
