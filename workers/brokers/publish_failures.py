"""Why a broker has not confirmed a message, in the words of domain/window.py's table."""

from poisonadmin.messages.domain.failures import Failure

UNROUTABLE = "Unroutable"
BROKER_REFUSED = "BrokerRefused"
CONFIRM_LOST = "ConfirmLost"
NOT_SENT = "NotSent"


def unroutable(why: str) -> Failure:
    """Return the failure of a message that the broker took and could put nowhere."""
    return Failure(UNROUTABLE, why)


def refused(why: str) -> Failure:
    """Return the failure of a message that the broker said no to."""
    return Failure(BROKER_REFUSED, why)


def confirm_lost(why: str) -> Failure:
    """Return the failure of a message that was sent and not answered: the broker may have it."""
    return Failure(CONFIRM_LOST, why)


def not_sent(why: str) -> Failure:
    """Return the failure of a message that no broker has seen."""
    return Failure(NOT_SENT, why)
