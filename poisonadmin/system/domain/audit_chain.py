"""The chain of seals over the audit log: what a seal is, and which entries are not as they were sealed."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

MOST_FINDINGS = 1_000


def chain_hash(before: bytes, entry_id: int, row_hash: bytes) -> bytes:
    """Return what stands for an entry and all before it: the SHA-256 of the seal before, the id and the row's hash.

    `before` is empty for the first entry. The id has 8 bytes, the highest first.

    >>> chain_hash(b"", 1, bytes(32)).hex()[:16]
    '3d0ad12b8ee8928e'
    """
    return hashlib.sha256(before + entry_id.to_bytes(8, "big", signed=True) + row_hash).digest()


@dataclass(frozen=True)
class AuditLink:
    """An id of the audit log. `row`: the hash of the entry as it is, None where there is none.

    `sealed_row`: its hash when it was sealed, `seal`: the chain hash; None where the entry has no seal.
    """

    entry_id: int
    row: bytes | None
    sealed_row: bytes | None
    seal: bytes | None


@dataclass(frozen=True)
class AuditFinding:
    """An entry of the audit log that is not as it was sealed."""

    entry_id: int
    what: str


@dataclass
class AuditComparison:
    """Compares links, which are added in the order of their ids, with each other and with what is `known`.

    `known`: seals that were noted elsewhere, in hexadecimal, by the id of their entry. `changed`: the hashes of entries
    that are not as they were sealed, by id.
    """

    known: Mapping[int, str] = field(default_factory=dict)
    entries: int = 0
    last_id: int = 0
    head: bytes = b""
    found: int = 0
    findings: list[AuditFinding] = field(default_factory=list)
    changed: dict[int, bytes] = field(default_factory=dict)

    def add(self, link: AuditLink) -> None:
        """Compare the next link."""
        if link.seal is None or link.sealed_row is None:
            self.find(link.entry_id, "was inserted: entries behind it were sealed without it")
            return
        if link.seal != chain_hash(self.head, link.entry_id, link.sealed_row):
            before = f"of entry {self.last_id}" if self.last_id else "of no entry"
            self.find(link.entry_id, f"has a seal that does not follow from that {before}, the one before it")
        if link.row is None:
            self.find(link.entry_id, "was removed")
        elif link.row != link.sealed_row:
            if len(self.changed) < MOST_FINDINGS:
                self.changed[link.entry_id] = link.row
            else:
                self.found += 1
        if link.seal.hex() != self.known.get(link.entry_id, link.seal.hex()):
            self.find(link.entry_id, "has another seal than the one that was noted")
        self.entries, self.last_id, self.head = self.entries + 1, link.entry_id, link.seal

    def end(self, sealed_as: Mapping[bytes, int], sealed_ids: Collection[int]) -> None:
        """Say what the changed entries are. `sealed_as`: the ids under which their hashes were sealed, where they were.

        `sealed_ids`: the ids of `known` that have a seal.
        """
        for entry_id, row in self.changed.items():
            other = sealed_as.get(row)
            self.find(entry_id, "was changed" if other is None else f"holds what was sealed as entry {other}")
        for entry_id in sorted(set(self.known) - set(sealed_ids)):
            self.find(entry_id, "has no seal, though one was noted")
        self.findings.sort(key=lambda one: one.entry_id)

    def find(self, entry_id: int, what: str) -> None:
        """Count a finding; keep the first ones."""
        self.found += 1
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(AuditFinding(entry_id, what))
