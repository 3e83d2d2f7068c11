"""Which bookmarks wait for what the server makes of their failure."""

import threading

from poisonguard.listing import Held


def test_a_bookmark_is_held_until_its_report_is_answered() -> None:
    held = Held()
    held.hold("1")
    assert not held.wait("1", 0)
    held.answered("1", is_listed=False)
    assert held.wait("1", 0)


def test_a_listed_one_is_held_until_the_list_says_so() -> None:
    held = Held()
    held.hold("1")
    held.answered("1", is_listed=True)
    assert not held.wait("1", 0)
    held.echoed("1")
    assert held.wait("1", 0)


def test_the_echo_may_come_before_the_answer() -> None:
    held = Held()
    held.hold("1")
    held.echoed("1")
    held.answered("1", is_listed=True)
    assert held.wait("1", 0)


def test_two_reports_of_one_bookmark_need_two_answers() -> None:
    held = Held()
    held.hold("1")
    held.hold("1")
    held.answered("1", is_listed=False)
    assert not held.wait("1", 0)
    held.answered("1", is_listed=False)
    assert held.wait("1", 0)


def test_a_new_list_frees_what_only_waited_for_its_echo() -> None:
    held = Held()
    for bookmark in ("1", "2"):
        held.hold(bookmark)
    held.answered("1", is_listed=True)
    held.reloaded()
    assert held.bookmarks == {"2"}


def test_an_echo_that_never_comes_is_not_waited_for_for_ever() -> None:
    held = Held()
    held.hold("1")
    held.give_up_echoes(older_than=0)
    assert not held.wait("1", 0)
    held.answered("1", is_listed=True)
    held.give_up_echoes(older_than=60)
    assert not held.wait("1", 0)
    held.give_up_echoes(older_than=0)
    assert held.wait("1", 0)


def test_whoever_waits_is_woken() -> None:
    held = Held()
    held.hold("1")
    threading.Timer(0.01, held.answered, ("1",), {"is_listed": False}).start()
    assert held.wait("1", 30)
