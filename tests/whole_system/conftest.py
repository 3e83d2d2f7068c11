"""Consumers of their own for the tests of the whole path."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.whole_system.consumer import Behaviour, Consumer, consuming, takes
from tests.whole_system.installation import Installation
from tests.whole_system.messages import Shop

OpenShop = Callable[..., Shop]


@pytest.fixture
def open_shop(installation: Installation) -> Iterator[OpenShop]:
    """Open a shop: a consumer, its destination, and the policy of its addresses."""
    with contextlib.ExitStack() as open_until_the_end:

        def open_one(name: str, behaviour: Behaviour = takes, **settings: object) -> Shop:
            consumer: Consumer = open_until_the_end.enter_context(consuming(behaviour))
            return Shop.open(installation, name, consumer, **settings)

        yield open_one


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """Return a directory to drop files into."""
    directory = tmp_path / "inbox"
    directory.mkdir()
    return directory
