"""Starting the child process of a sandbox."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from poisonadmin.delivery.domain import journal
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.handler.sandbox.account import CHILD, ENVIRONMENT


def start_child(
    destination: HandlerDestination, given: Mapping[str, int], output: int, mark: int
) -> subprocess.Popen[bytes]:
    """Start a child. `given`: the descriptors of its journal, its messages and the counter of those begun."""
    account = destination.account
    plan = {
        "callable": destination.callable,
        "memory_mb": destination.memory_mb,
        "mark": mark,
        "roots": list(destination.roots),
        "is_other_user": account is not None,
        "page_module": journal.__file__,
        "parent": os.getpid(),
        **given,
    }
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", CHILD, json.dumps(plan)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=ENVIRONMENT,
        cwd="/",
        pass_fds=tuple(given.values()),
        start_new_session=True,
        user=account.user_id if account else None,
        group=account.group_id if account else None,
        extra_groups=[] if account else None,
    )
