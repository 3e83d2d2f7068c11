"""Choosing ports."""

import socket

import pytest

from poisonadmin.embedded.environment import read_wishes
from poisonadmin.embedded.ports import PortTaken, free_port, is_free, require_free
from poisonadmin.embedded.processes import EmbeddedError


def test_a_free_port_can_be_listened_on_and_is_then_taken() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
        with pytest.raises(PortTaken, match=rf"Port {port} is taken.*POISONADMIN_PORT={port + 1}"):
            require_free(port, "POISONADMIN_PORT")
    require_free(port, "POISONADMIN_PORT")


def test_a_port_taken_on_all_interfaces_is_taken() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not is_free(server.getsockname()[1])


@pytest.mark.parametrize("text", ["web", "0", "65536", "-1", "80.5"])
def test_a_port_that_is_none_is_named(text: str) -> None:
    with pytest.raises(EmbeddedError, match=f"POISONADMIN_PORT={text} is not a port"):
        read_wishes({"POISONADMIN_PORT": text})
