"""Files of messages as a producer would drop them."""

import os
import random
import time
from pathlib import Path

ADDRESSES = ("b4.orders", "b4.invoices", "b4.shipments", "b4.returns")
PAYLOAD_BYTES = 1024
FILE_LINES = 125_000


def write_ndjson(directory: Path, count: int, *, prefix: str = "message") -> list[Path]:
    """Write `count` envelopes of 1 KB payload as NDJSON into files of at most 125,000 lines; return the files.

    Every message has an id of its own. The files are old enough to be taken at once.
    """
    directory.mkdir(parents=True, exist_ok=True)
    dice = random.Random(4)
    paths = []
    for number, first in enumerate(range(0, count, FILE_LINES)):
        path = directory / f"{prefix}-{number:03}.ndjson"
        with path.open("w") as file:
            for n in range(first, min(first + FILE_LINES, count)):
                payload = f"{dice.getrandbits(PAYLOAD_BYTES * 4):0{PAYLOAD_BYTES}x}"
                file.write(
                    f'{{"address": "{ADDRESSES[n % len(ADDRESSES)]}", "message_id": "{prefix}-{n}", '
                    f'"content_type": "text/plain", "headers": {{"x-number": "{n}"}}, "payload": "{payload}"}}\n'
                )
        a_minute_ago = time.time() - 60
        os.utime(path, (a_minute_ago, a_minute_ago))
        paths.append(path)
    return paths
