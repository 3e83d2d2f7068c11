"""The dispatcher's way to stop; its way to deliver is that of every vector in tests/conformance."""

from poisonadmin.core.queries.rows import fetch_rows
from tests.fixtures.delivery import enqueue, make_destination, run_shards, states
from workers.dispatcher import Dispatcher


class NoHeartbeat:
    """A heartbeat that nobody looks at."""

    def hold(self, job_id: int) -> None:
        """Do nothing."""

    def release(self, job_id: int) -> None:
        """Do nothing."""


def test_a_stop_ends_what_is_delivered_in_a_process_that_takes_no_more_threads(
    transactional_db: None, test_database_url: str
) -> None:
    make_destination(max_delivery_attempts=1)
    [message] = enqueue()
    dispatcher = Dispatcher(lambda: None, NoHeartbeat(), "stopping", test_database_url)
    assert dispatcher._begin()
    [begun] = dispatcher._active.values()
    run_shards(test_database_url, begun.claim)
    dispatcher._threads.shutdown()  # as Python does when its main thread has ended
    dispatcher.stop(5)
    assert states([message]) == ["NDLV"]
    assert fetch_rows("SELECT state, error FROM run") == [("succeeded", None)]
