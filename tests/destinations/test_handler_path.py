"""Handlers come from the named directories and from nowhere else; nothing is imported to find that out."""

import os
from pathlib import Path

import pytest

from poisonadmin.destinations.domain.handler_config import (
    UnusableHandlerPath,
    handler_directories,
    require_module,
    validate_handler_config,
)
from poisonadmin.destinations.domain.http_config import InvalidDestination


@pytest.fixture
def handlers(tmp_path: Path) -> Path:
    """Return a directory with a module, a package and a namespace, all of which would say so if they were imported."""
    loud = "raise SystemExit('imported')"
    for name in ("orders.py", "shop/__init__.py", "shop/refunds.py", "space/inner.py"):
        path = tmp_path / "handlers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(loud)
    return tmp_path / "handlers"


def test_the_directories_are_searched_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    text = os.pathsep.join([str(tmp_path / "b"), "", " ~/a "])
    assert handler_directories({"POISONADMIN_HANDLER_PATH": text}) == (tmp_path / "b", tmp_path / "a")


@pytest.mark.parametrize("text", ["handlers", "../handlers", "/no/such/directory", "/etc/passwd", "~nobody-here/x"])
def test_what_is_no_absolute_directory_is_named(text: str) -> None:
    with pytest.raises(UnusableHandlerPath, match="POISONADMIN_HANDLER_PATH: ") as refused:
        handler_directories({"POISONADMIN_HANDLER_PATH": text})
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("callable_", "file"),
    [
        ("orders:handle", "orders.py"),
        ("shop:handle", "shop/__init__.py"),
        ("shop.refunds:Refunds.handle", "shop/refunds.py"),
        ("space.inner:handle", "space/inner.py"),
    ],
)
def test_a_module_is_found_and_not_imported(callable_: str, file: str, handlers: Path) -> None:
    assert require_module(callable_, [handlers]) == handlers / file


@pytest.mark.parametrize(
    ("callable_", "why"),
    [
        ("billing:handle", "no module billing"),
        ("shop.orders:handle", "no module shop.orders"),
        ("space:handle", "no module space"),
        ("json:loads", "a module json exists already"),
        ("os.path:join", "a module os exists already"),
        ("workers.tasks:deliver", "a module workers exists already"),
        ("poisonadmin.messages.domain.states:page", "a module poisonadmin exists already"),
    ],
)
def test_what_cannot_be_imported_from_there_is_refused(callable_: str, why: str, handlers: Path) -> None:
    with pytest.raises(InvalidDestination, match=why):
        require_module(callable_, [handlers])


def test_a_link_that_leads_out_of_the_directory_is_not_followed(handlers: Path) -> None:
    (handlers.parent / "outside.py").write_text("")
    (handlers / "inside.py").symlink_to(handlers.parent / "outside.py")
    (handlers / "again.py").symlink_to(handlers / "orders.py")
    with pytest.raises(InvalidDestination, match="no module inside"):
        require_module("inside:handle", [handlers])
    assert require_module("again:handle", [handlers])


@pytest.mark.parametrize(
    "callable_",
    [
        *("../outside:handle", "..outside:handle", "/etc/passwd:x", "shop/refunds:handle", "shop\\refunds:handle"),
        *("shop.:handle", ".shop:handle", "shop:", ":handle", "shop", "shop:handle:again", "a b:c", "shop:handle\n"),
        *("shop\0:handle", "shop:handle()", "file:///etc:x", "x" * 300 + ":y", "", None, 7, ["shop:handle"]),
    ],
)
def test_a_name_that_is_no_module_and_function_never_reaches_the_file_system(callable_: object) -> None:
    with pytest.raises(InvalidDestination, match="callable"):
        validate_handler_config({"callable": callable_})


def test_without_directories_the_variable_is_named() -> None:
    with pytest.raises(InvalidDestination, match="POISONADMIN_HANDLER_PATH is empty"):
        require_module("orders:handle", [])
