"""The scan of Spark finds what a plain loop finds, whatever payloads are."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.rules.domain.content_rules import MAX_JSON_BYTES
from poisonadmin.search.deep.commands.searching import Searching
from poisonadmin.search.deep.domain import Clause, Wave
from poisonadmin.search.deep.queries import clauses_of
from poisonadmin.search.domain.filters import parse_filter
from tests.searches.plain import holds, put
from workers.spark.tables.columns import TABLES, arrow_schema

WORDS = ["a", "total", "Zoë", 'q"t', "77", "\u2028", "ab"]
VALUES = st.recursive(
    st.sampled_from([*WORDS, None, True, False, 0, 7, 77, 77.0, -1.5, 2**53 + 1, 10**25, ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=8,
)


def escaped(value: Any) -> bytes:
    return json.dumps(value).encode()


def unescaped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


JSON = st.one_of(VALUES.map(escaped), VALUES.map(unescaped))
PAYLOADS = st.one_of(
    JSON,
    JSON.map(lambda text: gzip.compress(text, mtime=0)),
    JSON.map(lambda text: b"\xff\x00" + text),
    JSON.map(lambda text: b'{"a":' * 300 + text + b"}" * 300),
    JSON.map(lambda text: b"[" * 3000 + text),
    JSON.map(lambda text: b'{"total": 77, "a": ' + text + b"}"),
    st.binary(max_size=30),
)
NAMES = st.sampled_from([*WORDS[:3], '["Zoë"]', "[*]", "[0]", "['ab']"])
PATHS = st.lists(NAMES, max_size=3).map(
    lambda names: "$" + "".join(name if name.startswith("[") else f".{name}" for name in names)
)
WANTED = st.sampled_from(
    [*("7", "77", '"77"', ">7", ">=77", "<0", "<=77", "*", "null", "true", "Zoë", '"ab"', ">9007199254740992")]
)
TERMS = st.one_of(
    st.sampled_from([one.replace('"', '\\"') for one in WORDS]).map(lambda text: f'payload:"{text}"'),
    st.builds(lambda path, wanted: f"payload.{path}:{wanted}", PATHS, WANTED),
    st.sampled_from(["header.t:1", "header.t:2"]),
)
QUERIES = st.lists(st.tuples(st.booleans(), TERMS), min_size=1, max_size=3).map(
    lambda terms: " ".join(("!" if negated else "") + term for negated, term in terms)
)


def headers_of(n: int) -> str:
    return json.dumps({"t": str(n % 3)}, separators=(",", ":"))


def written(payloads: list[bytes], path: Path) -> None:
    schema = arrow_schema(TABLES["messages"].columns)
    rows = [
        {"id": n, "payload": payload, "headers": headers_of(n), "message_id": f"m-{n}", "address": "a"}
        | {"state": "DLVD", "received_at": 0}
        for n, payload in enumerate(payloads)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


GENERATED = {
    "payloads": st.lists(PAYLOADS, min_size=1, max_size=12),
    "queries": st.lists(QUERIES, min_size=3, max_size=3),
}


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@example(
    payloads=[b'{"total": 77}' + b" " * size for size in (0, MAX_JSON_BYTES - 13, MAX_JSON_BYTES)],
    queries=["payload.$.total:77", "!payload.$.total:77"],
)
@example(
    payloads=[rb'{"tot\u0061l": 77}', b'{"total": 77.0}', b'["total", 77]', b'{"total": "77"}'],
    queries=["payload.$.total:77", "payload.$.total:>7"],
)
@given(**GENERATED)
def test_a_scan_finds_what_a_plain_loop_finds(
    going: Searching, tmp_path: Path, payloads: list[bytes], queries: list[str]
) -> None:
    assert_found_alike(going, tmp_path, payloads, queries)


@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(**GENERATED)
def test_many_scans_find_what_plain_loops_find(
    going: Searching, tmp_path: Path, payloads: list[bytes], queries: list[str]
) -> None:
    assert_found_alike(going, tmp_path, payloads, queries)


def assert_found_alike(going: Searching, tmp_path: Path, payloads: list[bytes], queries: list[str]) -> None:
    """Fail unless both find the same in the archive and among live messages, by their ids and by ranges of them."""
    written(payloads, tmp_path / "some.parquet")
    ids = put(*payloads, headers=[{"t": str(n % 3)} for n in range(len(payloads))])
    for query in queries:
        clauses: list[Clause] = clauses_of(parse_filter({"q": [query]}))
        expected = [
            n for n, payload in enumerate(payloads) if all(holds(clause, payload, headers_of(n)) for clause in clauses)
        ]
        archived = going.find(Wave(clauses, files=[str(tmp_path / "some.parquet")]))
        assert sorted(hit.id for hit in archived) == expected, query
        for wave in (Wave(clauses, [IdRange(ids[0] - 1, ids[-1])]), Wave(clauses, ids=ids)):
            assert sorted(ids.index(hit.id) for hit in going.find(wave)) == expected, query
