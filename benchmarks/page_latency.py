"""How long pages take while something else goes on: a browser asks for one after the other, over and over."""

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client

from poisonadmin.system.commands.accounts import bootstrap
from tests.fixtures.live_web import exchange

# A person's pace, and too little to be a load itself.
_PAUSE_SECONDS = 0.2


class Visitor:
    """An administrator who looks at pages of a running web process."""

    def __init__(self, address: str, directory: Path, urls: Sequence[str]) -> None:
        bootstrap(directory, password="visitor-" + "x" * 20)
        client = Client()
        client.force_login(get_user_model().objects.get(username="admin"))
        name = settings.SESSION_COOKIE_NAME
        self._cookie = f"{name}={client.cookies[name].value}"
        self._address, self._urls = address, urls

    def visit(self, times: int) -> list[float]:
        """Look at each page so many times; return how long each took, in milliseconds."""
        return [self._look(url) for url in itertools.islice(itertools.cycle(self._urls), times * len(self._urls))]

    @contextmanager
    def visiting(self) -> Iterator[list[float]]:
        """Look at pages meanwhile; yield the list of how long each took, in milliseconds, which grows."""
        took: list[float] = []
        is_over = threading.Event()

        def look_on() -> None:
            for url in itertools.cycle(self._urls):
                if is_over.is_set():
                    return
                took.append(self._look(url))

        thread = threading.Thread(target=look_on)
        thread.start()
        try:
            yield took
        finally:
            is_over.set()
            thread.join()

    def _look(self, url: str) -> float:
        time.sleep(_PAUSE_SECONDS)
        began = time.perf_counter()
        status, _, _ = exchange(self._address, "GET", url, Cookie=self._cookie)
        if status != 200:
            raise RuntimeError(f"{url} answered {status}")
        return (time.perf_counter() - began) * 1000
