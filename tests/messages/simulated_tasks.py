"""Tasks that deliver, without Spark: they take a claim, write outcomes, leave journals behind, and are lost."""

import mmap
import platform
from dataclasses import dataclass, field

from django.db import connection

from poisonadmin.delivery.commands.claim import ClaimRef
from poisonadmin.delivery.domain.journal import JOURNAL_BYTES, Journal, Kind
from workers.delivery.begun import BegunFile
from workers.delivery.handler.journals import JournalFile, journal_directory

HERE = platform.node()
IN_PAGES = {"delivered": Kind.DELIVERED, "failed": Kind.FAILED, "discarded": Kind.DISCARDED}
_CRASH = {"error_class": "HandlerKilled", "error_message": "killed", "fingerprint": "c" * 16, "title": "Killed"}
_UNBLAMED = {"delivered", "discarded", "rolled_back"}

_ENTER = """
INSERT INTO node (name, host, pid, claim_id, shard, lease_until, journals)
VALUES ('n', %s, 1, %s, %s, now() + interval '60 s', %s) ON CONFLICT (claim_id, shard) DO NOTHING RETURNING id
"""
_REPORT = """
UPDATE node SET under_way = (
    SELECT jsonb_object_agg(destination, %s::int)
    FROM claim_shard AS held CROSS JOIN LATERAL jsonb_object_keys(sizes) AS destination
    WHERE held.claim_id = node.claim_id AND held.shard = node.shard)
WHERE id = %s
"""
_WRITE = """
INSERT INTO attempt (message_id, attempt_number, claim_id, finished_at, outcome, error_class, error_message,
                     fingerprint, title)
VALUES (%s, %s, %s, now(), %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""


@dataclass(eq=False)
class Task:
    """What delivers a claim. `held`: what it took and has not answered; `node`: its row, None before it began."""

    claim: ClaimRef
    held: list[int]
    node: int | None = None
    in_pages: dict[int, str] = field(default_factory=dict)

    def enter(self) -> bool:
        """Do what a task does first; return whether it may deliver."""
        with connection.cursor() as cursor:
            cursor.execute(_ENTER, [HERE, self.claim.id, self.claim.shards[0], str(journal_directory())])
            row = cursor.fetchone()
        self.node = row[0] if row else None
        if row is None:
            return False
        BegunFile(journal_directory(), row[0]).close()
        return True

    def report(self) -> None:
        """Say how many messages are under way, as a node does beside its outcomes."""
        execute(_REPORT, len(self.held), self.node)

    def end(self, unanswered: list[int]) -> None:
        """End well, of these messages not knowing the outcome."""
        statement = """UPDATE node SET ended_at = now(), "end" = 'clean', unanswered = %s WHERE id = %s"""
        execute(statement, unanswered, self.node)

    def fall_silent(self) -> None:
        """Be dead, so that anybody who looks can see it."""
        execute("UPDATE node SET heartbeat_at = now() - interval '1 hour' WHERE id = %s", self.node)

    def vanish(self) -> None:
        """Have been lost an hour ago, on a machine of which nothing is left."""
        execute(
            """UPDATE node SET host = 'elsewhere', journals = 'gone', "end" = 'lost',
                               ended_at = now() - interval '1 hour' WHERE id = %s""",
            self.node,
        )

    def leave_pages(self, turns: list[tuple[int, int]], result: str) -> None:
        """Leave behind what a sandbox wrote: all of `turns` (message, attempt) but the last one ended in `result`."""
        file = JournalFile(journal_directory() / f"{self.node}-1.journal", {})
        with mmap.mmap(file.fileno(), JOURNAL_BYTES) as buffer:
            file.release()
            page = Journal(buffer)
            for message, attempt in turns:
                page.begin(message, attempt, now=1.0, cpu=0.0)
                self.in_pages[message] = "node_lost"
                if (message, attempt) != turns[-1]:
                    page.put(IN_PAGES[result], None, now=2.0)
                    self.in_pages[message] = result
            page.release()


def write(message: int, attempt: int, claim_id: int | None, outcome: str) -> None:
    """Write an outcome as a node does; nothing where there is one."""
    told = dict.fromkeys(_CRASH) if outcome in _UNBLAMED else _CRASH
    execute(_WRITE, message, attempt, claim_id, outcome, *told.values())


def execute(statement: str, *values: object) -> None:
    """Run a statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
