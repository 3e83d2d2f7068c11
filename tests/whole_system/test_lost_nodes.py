"""Lost processes under either rule, through the whole system: the delivering process is killed (R2)."""

import psutil
import pytest

from tests.whole_system.consumer import Answer
from tests.whole_system.handler_destination import HandlerDestination
from tests.whole_system.http_destination import CreateHttpDestination, HttpDestination
from tests.whole_system.installation import Installation, until

pytestmark = pytest.mark.long


def kill_node_of(installation: Installation, message: int) -> None:
    """Kill the process that delivers the message, once its request has been sent."""
    [(pid,)] = installation.rows(
        """SELECT node.pid FROM message JOIN node USING (claim_id, shard)
           WHERE message.id = %s AND state = 'DLNG' AND ended_at IS NULL""",
        [message],
    )
    assert installation.process.pid in {parent.pid for parent in psutil.Process(pid).parents()}
    psutil.Process(pid).kill()


@pytest.mark.conformance("SAP-n", "R2", by="lost process")
def test_sap_n_two_lost_nodes_stop_an_http_message_under_the_plain_rule(
    installation: Installation, create_http_destination: CreateHttpDestination
) -> None:
    destination = create_http_destination("sap-n", lambda _: Answer(seconds=120), preset="sap")
    message = destination.send()
    _lose(installation, destination, message, 1)
    until(lambda: "node_lost" in destination.events(message), 90, lambda: destination.events(message))
    shown = destination.message(message)
    assert shown["candidate"] is True
    _lose(installation, destination, message, 2)
    stopped = destination.until(message, "NDLV", 120)
    assert (stopped["reason"], stopped["crash_count"]) == ("blacklisted", 2)


def _lose(installation: Installation, destination: HttpDestination, message: int, nth: int) -> None:
    until(lambda: len(destination.arrivals(message)) == nth, 120, lambda: destination.events(message))
    kill_node_of(installation, message)


@pytest.mark.conformance("SAP-o", "R2", by="lost process")
def test_sap_o_a_handler_that_kills_its_whole_group_is_stopped_after_three_losses_and_nobody_else_is(
    installation: Installation,
) -> None:
    destination = HandlerDestination.create(installation, "sap-o", blame="exact", max_delivery_attempts=10)
    bystanders = [destination.send("sleep 1") for _ in range(6)]
    poison = destination.send("kill_parent")
    stopped = destination.until(poison, "NDLV", 240)
    assert stopped["reason"] == "blacklisted"
    losses = [one["outcome"] for one in destination.attempts(poison)]
    assert losses.count("node_lost") <= 3, losses
    for bystander in bystanders:
        destination.until(bystander, "DLVD", 120)
