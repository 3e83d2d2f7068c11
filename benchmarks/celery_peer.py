"""B11's peer: a Celery worker on Valkey whose tasks are acknowledged late, as one would set it up against crashes."""

import os
import time

import redis
from celery import Celery

# By default an hour: until then Celery on Redis gives nobody what a dead worker held.
VISIBILITY_SECONDS = 5
BEGUN = "celery-peer-begun"

URL = os.environ.get("CELERY_PEER_URL", "")

app = Celery("celery_peer", broker=URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_ignore_result=True,
    broker_transport_options={"visibility_timeout": VISIBILITY_SECONDS, "global_keyprefix": "peer:"},
)


@app.task
def sleep(seconds: float) -> None:
    """Say that it has begun, and take a while."""
    redis.Redis.from_url(URL).rpush(BEGUN, "1")
    time.sleep(seconds)
