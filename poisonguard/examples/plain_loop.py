"""A consumer as plain as can be: it reads lines from a file, remembers how far it came, and starts there again.

Run it as `python plain_loop.py orders.ndjson`, with POISONADMIN_URL and POISONADMIN_TOKEN in the environment. Whatever
line makes it fail or die is reported; started again it goes on behind its last good line, and skips what is listed.
"""

import json
import os
import sys
from pathlib import Path

from poisonguard.guard import Guard, Skip


def bill(line: str) -> None:
    """Do the work; here: print what the order costs."""
    order = json.loads(line)
    print(f"order {order['id']}: {order['quantity'] * order['price']}", flush=True)


def skipped(skip: Skip) -> None:
    """Say what is left out."""
    print(f"skipped {skip.bookmark}: {skip.why}", flush=True)


def remember(place: Path, number: int) -> None:
    """Put down how far it came, whole or not at all."""
    draft = place.with_suffix(".draft")
    draft.write_text(str(number))
    draft.replace(place)


def main(path: Path) -> None:
    """Handle the lines behind the last one that was dealt with."""
    place = path.with_suffix(".place")
    done = int(place.read_text()) if place.exists() else 0
    guard = Guard(
        os.environ["POISONADMIN_URL"],
        os.environ["POISONADMIN_TOKEN"],
        source=path.name,
        journal_dir=path.parent / "journal",
        version="1.0",
        on_skip=skipped,
    )
    with guard, path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if number > done:
                guard.handle(number, line, bill)
                remember(place, number)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
