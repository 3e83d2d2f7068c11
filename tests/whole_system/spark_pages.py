"""Run as a program in a worker's environment: prints all that Spark's pages say of a session and of a failed task.

The workers' own sessions have no pages; these are those of the same session with them.
"""

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator

import pyarrow as pa

from poisonadmin.core.domain.secret_settings import database_url
from workers.delivery.task import serve
from workers.spark import session

PAGES = (
    "jobs/",
    "stages/",
    "storage/",
    "environment/",
    "executors/",
    "SQL/",
    "executors/threadDump/?executorId=driver",
)
DATA = ("environment", "jobs", "stages?details=true", "executors")


def _deliver(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    serve(database_url(os.environ), instance=0, idle_seconds=0.1)
    yield from batches


def main() -> None:
    """Run a task that fails for want of a database, then print the pages."""
    session.SETTINGS["spark.ui.enabled"] = "true"
    spark = session.start_session("pages")
    try:
        spark.range(0, 1, 1, 1).mapInArrow(_deliver, "id long").collect()
    except Exception as error:
        print("failed as it should:", error)
    base, application = spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId
    details = [f"stages/stage/?id={number}&attempt=0" for number in range(2)]
    for page in [*PAGES, *details, *(f"api/v1/applications/{application}/{part}" for part in DATA)]:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{base}/{page}") as answer:
                print("page", page, answer.read().decode())
        except urllib.error.HTTPError as error:
            print("no page", page, error.code)
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
