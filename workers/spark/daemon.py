"""The process from which Spark forks its Python workers, with what a task needs imported already.

Spark lets idle Python workers go after a minute; importing again would cost the next delivery more than a second of
processor time.
"""
# ruff: noqa: E402  (what is shut out must be so before the first import)

import gc
import os
import sys
from importlib.abc import MetaPathFinder

# No pool of threads for linear algebra, which nobody here does: what is forked should have no threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# pyarrow would import pandas when it makes its first array, and PySpark where it finds it. Nobody here uses it, and it
# takes a second and 50 MB. Handlers have interpreters of their own.
class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not for tasks", name=name)


sys.meta_path.insert(0, _NoPandas())

import pyspark.daemon
import pyspark.sql.conversion
import pyspark.worker

import workers.delivery.shard
import workers.spark.jobs.drain
import workers.spark.jobs.ingest
import workers.spark.jobs.redeliver  # noqa: F401

if __name__ == "__main__":
    # The collector writes into every object that it looks at, and so would copy for each fork what all could share.
    gc.collect()
    gc.freeze()
    # Rows have no cycles: to look for some among each 700 new objects takes a tenth of a task's time.
    gc.set_threshold(50_000)
    pyspark.daemon.manager()
