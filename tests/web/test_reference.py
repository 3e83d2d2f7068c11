"""docs/api.md says what there is: every route, every error code."""

import re
from pathlib import Path

from poisonadmin.web.api import problems
from poisonadmin.web.api.reference import ROLES, error_codes, page

ROOT = Path(__file__).parents[2]


def test_the_page_is_the_one_that_the_code_writes() -> None:
    assert (ROOT / "docs" / "api.md").read_text() == page()


def test_every_code_that_the_source_names_is_on_the_page() -> None:
    named: set[str] = {code for _, _, code in problems._KNOWN}
    files = [file for role in ROLES for file in ROOT.glob(f"poisonadmin/*/{role}*/**/*.py")]
    files += [file for role in ROLES for file in ROOT.glob(f"poisonadmin/*/{role}.py")]
    assert len(files) > 150
    for path in files:
        source = path.read_text()
        named |= set(re.findall(r"Invalid(?:Envelope|Json)\(\s*\"([a-z_0-9]+)\"", source))
        named |= set(re.findall(r"^    code = \"([a-z_0-9]+)\"", source, re.MULTILINE))
        named |= set(re.findall(r"code=\"([a-z_0-9]+)\"", source))
    assert named <= set(error_codes())
