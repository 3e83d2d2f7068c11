"""Crashes as an example: messages that kill their handler in every way, bystanders, candidates, lost nodes, the poison
list and the consumers that share it. Names and outputs are as long and as odd as strangers make them.
"""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.decisions.operations.commands.releases import release_bookmark
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.store.models.poison import Consumer, PoisonEntry
from tests import crashes
from tests.fixtures import decisions

LABELS = "labels.render.parcel"
DEATHS: tuple[dict[str, Any], ...] = (
    {
        "exit_status": -11,
        "error_class": "HandlerSegfault",
        "error_message": "The handler was killed by SIGSEGV.",
        "output": b"loading fonts\nrendering parcel label, 3 lines\nFatal Python error: Segmentation fault\n",
    },
    {
        "exit_status": None,
        "error_class": "HandlerOutOfMemory",
        "error_message": "The handler ran out of memory: it may use 256 MB.",
        "output": b"allocating canvas 90000 x 90000\n",
    },
    {
        "exit_status": 3,
        "error_class": "HandlerExited",
        "error_message": "The handler ended its process with exit code 3.",
        "output": b"licence server not reachable, giving up\n",
    },
    {
        "exit_status": -6,
        "error_class": "HandlerAborted",
        "error_message": "The handler aborted (SIGABRT).",
        "output": b"\x1b[31mterminate called after throwing\x1b[0m\x00\xff\n" + b"x" * 7000 + b"\n<b>last</b> words",
    },
    {
        "exit_status": -9,
        "error_class": "HandlerTimeLimit",
        "error_message": "The handler was ended: it took longer than 30 s.",
        "output": None,
    },
)


def make_crashes() -> None:
    """Add all of it to an installation that has a destination for `labels.#`."""
    ids = [_label(number) for number in range(60)]
    together = crashes.take(ids[:30], host="worker-1", pid=4711)
    killers = ids[:5]
    for killer, death in zip(killers, DEATHS, strict=True):
        crashes.crash(together, killer, **death)
    crashes.deliver(together, *ids[5:30])
    crashes.end(together)
    for killer, death in zip(killers, DEATHS, strict=True):
        alone = crashes.take([killer], alone=True, host="worker-2", pid=5120 + killer % 10)
        crashes.crash(alone, killer, **death)
        crashes.end(alone)
    _approved_and_crashed_again(killers[0])
    lost = crashes.take(ids[30:40], host="worker-3", pid=6001)
    crashes.deliver(lost, *ids[33:36])
    crashes.lose(lost, *ids[30:33])
    crashes.crash(crashes.take([ids[45]], host="worker-1", pid=4799), ids[45], **DEATHS[0])
    crashes.take([ids[30]], alone=True, host="worker-2", pid=5190)
    cleared = crashes.take([ids[31]], alone=True, host="worker-2", pid=5191)
    crashes.deliver(cleared, ids[31])
    crashes.end(cleared)
    _make_poison_list()


def _label(number: int) -> int:
    fields = {
        "address": LABELS,
        "message_id": f"parcel-{number:05d}",
        "payload": {"parcel": number, "lines": ["Parcel Street 1", "12345 Somewhere"]},
    }
    if number == 1:
        fields["message_id"] = "p" * 255
    return accept(parse_envelope(fields), principal=SYSTEM, received_by="api").id


def _approved_and_crashed_again(message_id: int) -> None:
    decisions.approve([message_id], principal=principal("mara", Role.OPERATOR), reason="The fonts were replaced.")
    again = crashes.take([message_id], alone=True, host="worker-2", pid=5200)
    crashes.crash(again, message_id, **DEATHS[0])
    crashes.end(again)


def _make_poison_list() -> None:
    for number, (source, bookmark, why, fatal) in enumerate(
        (
            ("stocks.prices", "13|9281|", "ValueError: price is negative: -4.20", False),
            ("stocks.prices", "13|9460|", "KeyError: 'currency'", False),
            ("stocks.prices", "13|9777|", "Fatal error.", True),
            (LABELS, "parcel-00046", "Fatal error.", True),
            (LABELS, "b" * 255, "UnicodeDecodeError: " + "w" * 3000, False),
            ("stocks.orders", "7|1|", "TimeoutError: the exchange did not answer", False),
        )
    ):
        for _ in range(2 if number == 3 else 1):
            report(
                Report(source=source, bookmark=bookmark, why=why, fatal=fatal, consumer="printer-1"), principal=SYSTEM
            )
    entry = PoisonEntry.objects.get(bookmark="7|1|")
    release_bookmark(entry.id, principal=principal("mara", Role.OPERATOR), reason="The exchange answers again.")
    now = timezone.now()
    for name, source, silent, ended, bookmark in (
        ("printer-1", LABELS, 0, False, "parcel-00051"),
        ("printer-2", LABELS, 300, False, "parcel-00046"),
        ("ticker-" + "t" * 80, "stocks.prices", 1, False, None),
        ("ticker-2", "stocks.prices", 900, True, None),
    ):
        Consumer.objects.create(
            name=name,
            source=source,
            version="4.2.1" if "printer" in name else "1.0.0-" + "v" * 60,
            host="shop-7.example.org",
            pid=812,
            bookmark=bookmark,
            started_at=now - timedelta(hours=3),
            heartbeat_at=now - timedelta(seconds=silent),
            ended_at=now - timedelta(seconds=silent) if ended else None,
            reported_by="shop",
        )
