"""The pages of this machine's sandboxes, as `operations.remains` asks for them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from poisonadmin.delivery.commands.crash_recovery import LostNode
from workers.delivery.handler.sandbox.descendants import end_sandboxes_of
from workers.delivery.handler.sandbox.journals import attempts_left_behind, journal_directory, node_ids, remove_journals


class LocalJournals:
    """Those in POISONADMIN_HOME. A node's own directory is read where it names another."""

    def read(self, node: LostNode) -> Sequence[Mapping[str, Any]] | None:
        """Return the attempts in the node's pages, as rows; None when the pages are not there.

        What its sandboxes have left behind is ended.
        """
        end_sandboxes_of(Path(node.pages), node.id)
        rows = attempts_left_behind(
            Path(node.pages),
            node_id=node.id,
            name=node.name,
            claim_id=node.claim_id,
            shard=node.shard,
            destinations=node.destinations,
        )
        return None if rows is None else [asdict(row) for row in rows]

    def forget(self, node_id: int) -> None:
        """Remove the node's pages."""
        remove_journals(node_id)

    def node_ids(self) -> set[int]:
        """Return the nodes that have pages here."""
        return node_ids(journal_directory())
