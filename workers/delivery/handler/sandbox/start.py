"""How a sandbox is started, and how a message is put to it."""

import json
import marshal
import mmap
import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from poisonadmin.delivery.domain import journal
from poisonadmin.delivery.domain.journal import PAGE_BYTES
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.destination import HandlerDestination

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC"}
HEAD = struct.Struct("=IqI")  # bytes of the rest, message, attempt; the child reads the same
_CHILD = str(Path(__file__).parent / "inside" / "child.py")


@dataclass(frozen=True)
class JournalPlace:
    """Where the pages of a node's sandboxes are, and what stands at their head.

    `offset`: what added to the monotonic clock gives the database's Unix time.
    """

    directory: Path
    node_id: int
    claim_id: int
    shard: int
    offset: float


def new_journal(path: Path) -> mmap.mmap:
    """Make the file of a page and map it. Errors: `FileExistsError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(descriptor, PAGE_BYTES)
        return mmap.mmap(descriptor, PAGE_BYTES)
    finally:
        os.close(descriptor)


def start_child(destination: HandlerDestination, page: int, messages: int, output: int) -> "subprocess.Popen[bytes]":
    """Start a child with the descriptors of its page, of the socket with its messages, and of what it prints."""
    plan = {
        "callable": destination.callable,
        "memory_mb": destination.memory_mb,
        "roots": list(destination.roots),
        "page_module": journal.__file__,
        "page": page,
        "input": messages,
        "parent": os.getpid(),
    }
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", _CHILD, json.dumps(plan)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=ENVIRONMENT,
        cwd="/",
        pass_fds=(page, messages),
        start_new_session=True,
    )


def frame_of(delivery: Delivery) -> bytes:
    """Return a message as the child reads it: the head says whose it is, also where there is no room for the rest."""
    told = (
        delivery.payload,
        delivery.message_id,
        delivery.producer_message_id,
        delivery.address,
        delivery.attempt_number,
        delivery.content_type,
        delivery.conversation_id,
        delivery.bookmark,
    )
    body = marshal.dumps((told, json.dumps(delivery.headers).encode()))
    return HEAD.pack(len(body), delivery.message_id, delivery.attempt_number) + body
