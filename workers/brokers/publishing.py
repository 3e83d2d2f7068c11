"""Common parts of all publishers: the reasons for a missing confirm, and the wait for confirms."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from poisonadmin.groups.domain.failures import Failure
from workers.brokers.contract import Outgoing, Results

# So many messages in a row that each made the broker close the connection or channel: it is not the messages.
MOST_REFUSED = 3

Key = TypeVar("Key")


def unroutable(why: str) -> Failure:
    """Return the failure of a message that the broker took and could put nowhere."""
    return Failure("Unroutable", why)


def refused(why: str) -> Failure:
    """Return the failure of a message that the broker said no to."""
    return Failure("BrokerRefused", why)


def confirm_lost(why: str) -> Failure:
    """Return the failure of a message that was sent and not answered: the broker may have it."""
    return Failure("ConfirmLost", why)


def not_sent(why: str) -> Failure:
    """Return the failure of a message that no broker has seen."""
    return Failure("NotSent", why)


class Sending(ABC, Generic[Key]):
    """One call's messages on one connection.

    `unconfirmed`: the places in `batch` of those that wait, in order, by what their confirm names.
    """

    def __init__(self, batch: Sequence[Outgoing], results: Results) -> None:
        self.unconfirmed: dict[Key, int] = {}
        self._batch = batch
        self._results = results

    def wait(self, deadline: float) -> None:
        """Return when everything is confirmed, or the time is over. Errors: `BrokerError`."""
        self._settle()
        while self.unconfirmed and (left := deadline - time.monotonic()) > 0:
            self._listen(left)
            self._settle()

    def fail(self, failure: Failure) -> None:
        """Let everything that is not confirmed have failed."""
        for place in self.unconfirmed.values():
            self._results[place] = failure
        self.unconfirmed.clear()

    @abstractmethod
    def _listen(self, seconds: float) -> None:
        """Return when the broker has answered something, or the time is over. Errors: `BrokerError`."""

    @abstractmethod
    def _settle(self) -> None:
        """Take the answers that have come out of `unconfirmed`."""
