"""B11's peer: a Celery worker on Valkey whose tasks are acknowledged late, as one would set it up against crashes."""

import os
import time

import redis
from celery import Celery
from celery.signals import worker_ready

# By default an hour: until then Celery on Redis gives nobody what a dead worker held.
VISIBILITY_SECONDS = 10
BEGUN = "celery-peer-begun"
READY = "celery-peer-ready"
PREFIX = "peer:"

URL = os.environ.get("CELERY_PEER_URL", "")

app = Celery("celery_peer", broker=URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_ignore_result=True,
    broker_transport_options={"visibility_timeout": VISIBILITY_SECONDS, "global_keyprefix": PREFIX},
)


@worker_ready.connect  # type: ignore[untyped-decorator]
def _say_ready(**_: object) -> None:
    redis.Redis.from_url(URL).rpush(READY, "1")


@app.task  # type: ignore[untyped-decorator]
def sleep(seconds: float) -> None:
    """Say in which worker it has begun, and take a while."""
    redis.Redis.from_url(URL).rpush(BEGUN, os.getppid())
    time.sleep(seconds)
