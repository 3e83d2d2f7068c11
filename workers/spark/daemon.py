"""The process from which Spark forks its Python workers, with what a task needs imported already.

Spark lets idle Python workers go after a minute; importing again would cost the next delivery most of a second.
"""

import pyspark.daemon

import workers.delivery.shard
import workers.spark.jobs.ingest
import workers.spark.jobs.redeliver  # noqa: F401  (imported for the fork)

if __name__ == "__main__":
    pyspark.daemon.manager()
