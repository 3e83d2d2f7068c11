"""The batch API: NDJSON over HTTP into the whole system, against a binary COPY of the finished rows."""

import http.client
import json
from pathlib import Path

from benchmarks import bare_copy, files, loads, memory
from benchmarks.results import Line, alternate, at_most, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World

NAME = "BATCH"
MESSAGES = 100_000
UPLOAD_BYTES = 200 * memory.MIB
GROWTH_AIM_MIB = 64
LIMIT = "Python reading and checking each line, then the merge"
_PATH = "/api/v1/messages/batch/"
_BLOCK_BYTES = 256 * 1024


def run(world: World) -> list[Line]:
    """Measure. The addresses deliver nowhere, so that nothing but the intake goes on."""
    count = world.count(MESSAGES, least=2_000)
    (path,) = files.write_ndjson(world.directory / "upload", count, prefix="batch")
    url = world.services.database_url
    say(f"  {count:,} lines, {path.stat().st_size / memory.MIB:,.0f} MB")

    def post() -> Rate:
        loads.empty()
        watch = Stopwatch()
        with watch:
            accepted = upload(world, path)
        assert accepted == count, f"{accepted} of {count} accepted"
        return watch.rate(count)

    post()
    bare_copy.dump(url, world.directory)
    measures = [("batch API", post), ("binary COPY", lambda: bare_copy.load(url, world.directory, count))]
    rates = alternate(measures, rounds=world.rounds, unit="messages")
    growth = growth_of_web(world)
    loads.empty()
    pairs = pairs_of(rates, "batch API", "binary COPY")
    return [
        compared(NAME, "batch API / binary COPY of the finished rows", pairs, unit="messages", limit=LIMIT),
        at_most(NAME, "web process grows by, upload of 200 MB", growth / memory.MIB, aim=GROWTH_AIM_MIB, unit="MiB"),
    ]


def upload(world: World, path: Path) -> int:
    """Post the file as one batch and return how many messages were accepted."""
    connection = http.client.HTTPConnection("127.0.0.1", world.live.system.port, timeout=600)
    headers = {
        "Authorization": f"Bearer {world.live.system.token}",
        "Content-Type": "application/x-ndjson",
        "Content-Length": str(path.stat().st_size),
    }
    with path.open("rb") as file:
        connection.request("POST", _PATH, iter(lambda: file.read(_BLOCK_BYTES), b""), headers)
        response = connection.getresponse()
        answer = response.read()
    connection.close()
    assert response.status == http.HTTPStatus.ACCEPTED, f"{response.status}: {answer[:500]!r}"
    return int(json.loads(answer)["accepted"])


def growth_of_web(world: World) -> int:
    """Return by how many bytes an upload of 200 MB (always the whole size) raises the web process's peak."""
    lines = UPLOAD_BYTES // 1100
    paths = files.write_ndjson(world.directory / "growth", lines, prefix="growth")
    whole = world.directory / "growth.ndjson"
    with whole.open("wb") as file:
        for path in paths:
            file.write(path.read_bytes())
    (web,) = world.live.system.processes()["web"]
    memory.forget_peak(web)
    before = memory.resident_bytes(web)
    upload(world, whole)
    return memory.resident_bytes(web, "VmHWM") - before
