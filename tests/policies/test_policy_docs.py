"""The policies' page names what there is."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from poisonadmin.policies.domain.policy import BUILT_IN, PRESETS, OnExhausted, Policy

PAGE = (Path(__file__).parents[2] / "docs" / "use" / "policies.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE, re.MULTILINE))


@pytest.mark.parametrize("name", [field.name for field in fields(Policy)])
def test_every_setting_has_a_row_with_its_built_in_value(name: str) -> None:
    built_in = ROWS[name].split(" | ")[1].removesuffix(", off").strip("`")
    value = getattr(BUILT_IN, name)
    if value in ("", ()):
        assert built_in in ("empty", "none")
    elif isinstance(value, str):
        assert built_in == value
    else:
        assert json.loads(built_in) == value


def test_every_preset_has_a_row() -> None:
    assert set(PRESETS) <= set(ROWS)


@pytest.mark.parametrize("what", OnExhausted)
def test_every_way_to_end_is_named(what: OnExhausted) -> None:
    assert f"`{what}`" in ROWS["on_exhausted"]
