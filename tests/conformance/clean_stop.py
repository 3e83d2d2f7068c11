"""SAP-m: a node that is stopped cleanly accuses nobody, whichever way it is stopped."""

from collections.abc import Callable

from tests.conformance.controlled_handler import EXACT, PLAIN, ControlledHandler
from tests.whole_system.installation import PoisonAdmin


def check_clean_stop(system: PoisonAdmin, restart: Callable[[], None]) -> None:
    """Restart what delivers while under each rule one message is handled and one is only claimed; then deliver both."""
    handlers = [
        ControlledHandler.create(system, f"sap-m-{blame}", blame=blame, concurrency=1) for blame in (EXACT, PLAIN)
    ]
    pairs = [handler.send_together(2) for handler in handlers]
    for handler, (begun, claimed) in zip(handlers, pairs, strict=True):
        handler.until_begun(begun, 1)
        assert handler.suspicion(claimed).state == "DLNG"
        handler.hold()
    restart()
    for handler, (begun, claimed) in zip(handlers, pairs, strict=True):
        for message, event in ((begun, "outcome_lost"), (claimed, "released")):
            after = handler.until(message, "TBDL", event)
            assert (after.candidate, after.crash_count, after.failure_count) == (False, 0, 0)
    for handler, messages in zip(handlers, pairs, strict=True):
        for message in messages:
            handler.deliver(message, 2)
        handler.release()
        for message in messages:
            assert handler.until(message, "DLVD", "delivered").candidate is False
