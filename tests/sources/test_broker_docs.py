"""What the page about brokers says to hand in is a message."""

import json
import re
from pathlib import Path

import pytest

from poisonadmin.intake.domain.envelope import parse_envelope

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operate" / "brokers.md"
EXAMPLES = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_is_one_line_and_a_dead_letter(line: str) -> None:
    assert line.count("\n") == 1
    told = parse_envelope(json.loads(line)).dead_letter
    assert told is not None
    assert told.original_address


def test_there_are_examples_of_two_other_brokers() -> None:
    assert len(EXAMPLES) == 2
