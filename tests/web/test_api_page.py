"""docs/use/api.md lists every error code that the API answers with, and no other."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import poisonadmin
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.web.api import problems

ROOT = Path(__file__).parents[2]
ROLE = re.compile(r"poisonadmin(\.\w+)+?\.(domain|queries|commands|api)(\.|$)")
CODE = re.compile(
    r"Invalid(?:Envelope|Json)\(\s*\"([a-z_0-9]+)\"|^    code = \"([a-z_0-9]+)\"|code=\"([a-z_0-9]+)\"", re.MULTILINE
)
STRING = re.compile(r'"[a-z_0-9]+"')
ROW = re.compile(r"^\| `([a-z_0-9]+)` \| (\d{3}) \| \w.* \|$", re.MULTILINE)


def modules() -> list[str]:
    """Return the modules whose errors the API may answer with."""
    found = pkgutil.walk_packages(poisonadmin.__path__, "poisonadmin.")
    return [module.name for module in found if ROLE.match(module.name)]


def subclasses(kind: type[PoisonAdminError]) -> Iterator[type[PoisonAdminError]]:
    for subclass in kind.__subclasses__():
        if ROLE.match(subclass.__module__):
            yield subclass
            yield from subclasses(subclass)


def codes_of_classes() -> dict[str, int]:
    """Return the status of each code that a class of errors has."""
    for module in modules():
        importlib.import_module(module)
    return {error.code: error.status for error in subclasses(PoisonAdminError) if "code" in vars(error)}


def test_the_page_lists_every_error_code_with_its_status_and_no_other() -> None:
    listed = {code: int(status) for code, status in ROW.findall((ROOT / "docs" / "use" / "api.md").read_text())}
    names = modules()
    assert len(names) > 150
    source = "\n".join(Path(importlib.import_module(name).__file__ or "").read_text() for name in names)
    required = {code: status for _, status, code in problems._KNOWN} | codes_of_classes()
    assert {code: listed.get(code) for code in required} == required
    assert {code for found in CODE.findall(source) for code in found if code} <= set(listed)
    # A field's name, with `invalid_` before it, is the code of most fields of a message.
    assert [
        code for code in listed if not {f'"{code}"', f'"{code.removeprefix("invalid_")}"'} & set(STRING.findall(source))
    ] == []


def test_the_codes_are_in_alphabetical_order() -> None:
    codes = [code for code, _ in ROW.findall((ROOT / "docs" / "use" / "api.md").read_text())]
    assert codes == sorted(codes)
