"""A destination cannot be used to reach what it may not, whatever its name resolves to, and whenever."""

import asyncio
import socket

import pytest

from poisonadmin.core.domain.ssrf import NetworkGuard, parse_networks
from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.workers.sinks import LOCAL, Seen, deliver, delivery, destination, http_sink

STRICT = NetworkGuard()


def answering(*answers: list[str]):
    """Return a name server that gives these addresses, one list a question, and counts the questions."""
    asked = []

    async def lookup(host, port, family):
        addresses = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [
            (socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
            for ip in addresses
        ]

    lookup.asked = asked
    return lookup


def outcome(url: str, **options) -> AttemptRecord:
    return asyncio.run(deliver([delivery()], destination(url), **({"guard": STRICT} | options))).row


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "[::1]", "[::ffff:169.254.169.254]", "[fe80::1]", "0.0.0.0"]
)
def test_a_forbidden_address_in_the_url_is_refused(host):
    row = outcome(f"http://{host}/")
    assert row.error_class == "DestinationRefused"
    assert row.status_code is None


@pytest.mark.parametrize("host", ["127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1"])
def test_a_disguised_address_is_not_connected_to(host):
    assert outcome(f"http://{host}/", guard=LOCAL).outcome == "failed"


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::1"], ["64:ff9b::a9fe:a9fe"], ["169.254.169.254"]]
)
def test_a_name_is_refused_when_any_of_its_addresses_is_forbidden(addresses):
    row = outcome("http://hooks.example/", lookup=answering(addresses))
    assert row.error_class == "DestinationRefused"
    assert "hooks.example resolves to a forbidden address" in row.error_message


def test_localhost_is_refused_by_the_systems_own_resolver():
    assert outcome("http://localhost:1/").error_class == "DestinationRefused"


def test_link_local_is_refused_even_where_everything_is_allowed():
    open_guard = NetworkGuard(parse_networks("0.0.0.0/0 ::/0"), allow_loopback=True)
    row = outcome("http://hooks.example/", lookup=answering(["169.254.169.254"]), guard=open_guard)
    assert row.error_class == "DestinationRefused"


def test_a_name_is_resolved_once_and_connected_to_what_was_checked():
    async def run():
        seen = Seen()
        lookup = answering(["127.0.0.1"], ["169.254.169.254"])
        async with http_sink(seen=seen) as url:
            named = url.replace("127.0.0.1", "hooks.example")
            done = await deliver(
                [delivery(n) for n in range(50)], destination(named, concurrency=8), guard=LOCAL, lookup=lookup
            )
        return done, seen, lookup.asked

    done, seen, asked = asyncio.run(run())
    assert done.summary.delivered == 50
    assert asked == ["hooks.example"]
    assert {request.headers["Host"].partition(":")[0] for request in seen.requests} == {"hooks.example"}


def test_a_name_that_changes_its_address_between_two_runs_is_checked_again():
    lookup = answering(["127.0.0.1"], ["169.254.169.254"])

    async def run():
        async with http_sink() as url:
            named = destination(url.replace("127.0.0.1", "hooks.example"))
            first = await deliver([delivery(1)], named, lookup=lookup)
            second = await deliver([delivery(2)], named, lookup=lookup)
            return first.row, second.row

    first, second = asyncio.run(run())
    assert first.outcome == "delivered"
    assert second.error_class == "DestinationRefused"


def test_the_socket_is_checked_once_more_than_the_name():
    from workers.delivery.http.resolver import AddressRefused, guarded_socket

    make = guarded_socket(STRICT)
    with pytest.raises(AddressRefused, match="link-local"):
        make((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80)))


def test_a_private_address_is_reached_where_the_allow_list_says_so():
    # 127.0.0.2 stands for a private network: loopback is shut, but the list opens this part of it.
    async def run():
        async with http_sink() as url:
            guard = NetworkGuard(parse_networks("127.0.0.1/32"))
            return (await deliver([delivery()], destination(url), guard=guard)).row

    assert asyncio.run(run()).outcome == "delivered"
