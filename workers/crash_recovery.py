"""Recovery on one machine, which reads the journals that its sandboxes have left behind."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from poisonadmin.delivery.commands.recovery import LostNode, recover, search_lost_nodes
from poisonadmin.delivery.commands.settle import settle
from workers.delivery.handler.children import end_sandboxes_of
from workers.delivery.handler.journals import attempts_left_behind, journal_directory, node_ids, remove_journals


def recover_here() -> None:
    """Settle what is answered, and give back what dead nodes held, of this machine's also what they had begun."""
    recover()
    if search_lost_nodes(platform.node(), LocalJournals()):
        settle()


class LocalJournals:
    """Those in POISONADMIN_HOME. A node's own directory is read where it names another."""

    def read(self, node: LostNode) -> Sequence[Mapping[str, Any]] | None:
        """Return the attempts in the node's journals, as rows; None when the journals are not there.

        What its sandboxes have left behind is ended.
        """
        end_sandboxes_of(Path(node.journals), node.id)
        rows = attempts_left_behind(
            Path(node.journals),
            node_id=node.id,
            name=node.name,
            claim_id=node.claim_id,
            shard=node.shard,
            destinations=node.destinations,
        )
        return None if rows is None else [asdict(row) for row in rows]

    def forget(self, node_id: int) -> None:
        """Remove the node's journals."""
        remove_journals(node_id)

    def node_ids(self) -> set[int]:
        """Return the nodes that have journals here."""
        return node_ids(journal_directory())
