"""Configures the sample and hands its messages in: everything once, then a trickle that ends by itself."""

import itertools
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from django.db import InterfaceError, OperationalError, close_old_connections

from poisonadmin.core.domain.access import Role, principal
from poisonadmin.core.queries.read_only import ReadOnly
from poisonadmin.intake.commands import accept
from poisonadmin.intake.domain.envelope import MessageEnvelope
from sample.configuration import configure_sample
from sample.messages import again, dead_letter, dead_letters, webhooks
from sample.ports import base_port, urls

LOADER = principal("sample", Role.ADMIN)
MESSAGES_PER_SECOND = 2.0
MAX_SECONDS = 2 * 60 * 60
DEAD_LETTER_EVERY = 40
# The database may be restarting, or the installation be read-only; the messages wait here.
RETRY_SECONDS = 1.0


def load_once(now: datetime) -> int:
    """Configure, hand in each message of the sample, and return how many were new."""
    configure_sample(urls(base_port(os.environ)), principal=LOADER)
    return sum(hand_in(envelope) for envelope in itertools.chain(webhooks(now), dead_letters(now)))


def hand_in(envelope: MessageEnvelope) -> bool:
    """Hand one message in and return whether it was new."""
    return accept.accept(envelope, principal=LOADER, received_by="sample").created


def trickle(now: Callable[[], datetime]) -> Iterator[MessageEnvelope]:
    """Yield new messages without end, in an order that looks like an ordinary day."""
    dice = random.Random()
    known = list(webhooks(now()))
    for number in itertools.count(1):
        if number % DEAD_LETTER_EVERY == 0:
            yield dead_letter(dice.randrange(4), f"order-{uuid.uuid4().hex[:12]}", now())
        else:
            yield again(dice.choice(known), now())


def keep_going(*, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic) -> int:
    """Hand in two messages a second for two hours, also across restarts of the database; return how many."""
    started = clock()
    handed_in = 0
    for envelope in trickle(lambda: datetime.now(UTC)):
        if clock() - started >= MAX_SECONDS:
            break
        _until_it_works(envelope, sleep)
        handed_in += 1
        sleep(1 / MESSAGES_PER_SECOND)
    return handed_in


def _until_it_works(envelope: MessageEnvelope, sleep: Callable[[float], None]) -> None:
    # Handing the same message in twice is safe, so a lost answer may be asked for again.
    while True:
        try:
            hand_in(envelope)
            return
        except (OperationalError, InterfaceError, ReadOnly):
            close_old_connections()
            sleep(RETRY_SECONDS)
