"""F7, SAP-n and SAP-o: processes that are lost again and again over one message, while others are on their way.

The killed process delivers other messages too: none of them may stay blamed for it (R2).
"""

import contextlib
import uuid
from collections import Counter

import psutil

from tests.faults.run import Fault, Scene
from tests.whole_system.consumer import Answer, consuming
from tests.whole_system.handler_destination import HandlerDestination
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import until

PROMPT_SECONDS = 15
MAX_LOSSES = 3
STOPPED_SECONDS = 240
_NODE_OF = """
SELECT node.pid FROM message JOIN node USING (claim_id, shard)
WHERE message.id = %s AND state = 'DLNG' AND ended_at IS NULL
"""


def plain_rule(scene: Scene) -> str:
    """Kill the process that delivers an HTTP message under the preset `sap`, twice (SAP-n)."""
    name = f"sap-n-{uuid.uuid4().hex[:8]}"
    with consuming(lambda _: Answer(seconds=120)) as consumer:
        destination = HttpDestination.create(scene.installation, name, consumer, preset="sap")
        message = destination.send()
        for nth in (1, 2):
            until(lambda nth=nth: len(destination.arrivals(message)) == nth, 120, lambda: destination.events(message))
            for (pid,) in scene.installation.rows(_NODE_OF, [message]):
                assert scene.installation.process.pid in {parent.pid for parent in psutil.Process(pid).parents()}
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()
            lost = lambda nth=nth: Counter(destination.events(message))["node_lost"] == nth  # noqa: E731
            until(lost, 120, lambda: destination.events(message))
            if nth == 1:
                assert destination.message(message)["candidate"], "the first loss made no candidate"
        stopped = destination.until(message, "NDLV", STOPPED_SECONDS)
    _disable(scene, name)
    assert (stopped["reason"], stopped["crash_count"]) == ("blacklisted", 2), stopped
    return "SAP-n: two processes killed over one message, blacklisted by the second"


def whole_group(scene: Scene) -> str:
    """Send a handler a message that kills its whole process group (SAP-o)."""
    name = f"sap-o-{uuid.uuid4().hex[:8]}"
    destination = HandlerDestination.create(scene.installation, name, blame="exact", max_delivery_attempts=10)
    beside = [destination.send("sleep 1") for _ in range(6)]
    poison = destination.send("kill_parent")
    stopped = destination.until(poison, "NDLV", STOPPED_SECONDS)
    losses = [one["outcome"] for one in destination.attempts(poison)].count("node_lost")
    for bystander in beside:
        assert not destination.until(bystander, "DLVD", STOPPED_SECONDS)["candidate"], f"{bystander} is still blamed"
    _disable(scene, name)
    assert stopped["reason"] == "blacklisted", stopped
    assert losses <= MAX_LOSSES, f"{losses} processes were lost over one message"
    return f"SAP-o: a handler that kills its group, blacklisted after {losses} losses"


def _disable(scene: Scene, name: str) -> None:
    scene.installation.post(f"destinations/{name}/disable/", {"reason": "the strike is over"})


FAULTS = (
    Fault("F7", "lost nodes, plain rule", plain_rule, PROMPT_SECONDS),
    Fault("F7", "lost nodes, whole group", whole_group, PROMPT_SECONDS, stage="plain", to_handlers=True),
)
