"""Every vector of docs/develop/conformance.md has a test whose name carries its id."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_VECTOR = re.compile(r"^\| ((?:SAP|AMPS)-[a-z]) \|", re.MULTILINE)
_TEST = re.compile(r"^def test_(sap|amps)_([a-z])_", re.MULTILINE)


def test_every_vector_has_a_test_and_every_such_test_is_in_the_table() -> None:
    listed = _VECTOR.findall((ROOT / "docs/develop/conformance.md").read_text())
    sources = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    tested = {f"{system.upper()}-{letter}" for source in sources for system, letter in _TEST.findall(source)}
    assert set(listed) == tested
    assert len(listed) == len(set(listed)) == 18 + 8
