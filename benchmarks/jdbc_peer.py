"""Spark's own way into PostgreSQL: `DataFrameWriter.jdbc` with its defaults. Needs a driver from Maven Central."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks import loads
from benchmarks.stopwatch import Rate, Stopwatch

DRIVER = "org.postgresql:postgresql:42.7.4"
_COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_FETCH_SECONDS = 180
_SHAPE = "address string, message_id string, content_type string, headers map<string,string>, payload string"


def fetch_driver(directory: Path) -> Path | None:
    """Return the driver's file, fetched by Maven; None where there is no Maven or it cannot reach a repository."""
    maven = shutil.which("mvn")
    if maven is None:
        return None
    command = [maven, "-q", "-B", _COPY_GOAL, f"-Dartifact={DRIVER}", f"-DoutputDirectory={directory}"]
    try:
        subprocess.run(command, cwd=directory, capture_output=True, check=True, timeout=_FETCH_SECONDS)
    except subprocess.SubprocessError:
        return None
    return next(directory.glob("postgresql-*.jar"), None)


def put_on_class_path(driver: Path) -> None:
    """Let the session that is started next know the driver."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {driver} pyspark-shell"


def load(spark: SparkSession, paths: Sequence[Path], database_url: str, count: int) -> Rate:
    """Write the files' messages into the emptied tables of a message.

    No duplicates are looked for, and a task that Spark runs again writes its rows again: this is what the product may
    not do.
    """
    loads.empty()
    place = urlsplit(database_url)
    url = f"jdbc:postgresql://{place.hostname}:{place.port}{place.path}"
    login = {"user": place.username or "", "password": place.password or "", "driver": "org.postgresql.Driver"}
    watch = Stopwatch()
    lines = spark.read.schema(_SHAPE).json([str(path) for path in paths])
    messages = lines.withColumn("id", f.monotonically_increasing_id()).persist(StorageLevel.DISK_ONLY)
    with watch:
        for table, rows in _tables(messages).items():
            rows.write.jdbc(url, table, mode="append", properties=login)
    messages.unpersist()
    assert loads.count_not("none") == count, "not every row was written"
    return watch.rate(count)


def _tables(messages: DataFrame) -> dict[str, DataFrame]:
    lanes = _lanes()
    address = f.create_map(*(f.lit(x) for name, (address_id, _) in lanes.items() for x in (name, address_id)))
    lane = f.create_map(*(f.lit(x) for name, (_, lane_id) in lanes.items() for x in (name, lane_id)))
    now = f.current_timestamp()
    payload = f.encode("payload", "utf-8")
    return {
        "body": messages.select(
            "id", f.encode(f.to_json("headers"), "utf-8").alias("headers"), payload.alias("payload")
        ),
        "envelope": messages.select(
            "id",
            address[f.col("address")].alias("intake_address_id"),
            "message_id",
            "content_type",
            f.octet_length(payload).alias("payload_bytes"),
            f.lit("benchmark").alias("received_by"),
        ),
        "message": messages.select(
            "id",
            address[f.col("address")].alias("address_id"),
            lane[f.col("address")].alias("lane_id"),
            f.lit("TBDL").alias("state"),
            now.alias("due_at"),
        ),
        "history": messages.select(
            f.col("id").alias("message_id"),
            f.lit("TBDL").alias("to_state"),
            f.lit("enqueued").alias("event"),
            f.lit(0).alias("attempt_number"),
            f.lit("benchmark").alias("actor"),
        ),
    }


def _lanes() -> dict[str, tuple[int, int]]:
    from poisonadmin.store.models.lane import Lane

    rows = Lane.objects.filter(conversation_id=None).values_list("address__name", "address_id", "id")
    return {name: (address_id, lane_id) for name, address_id, lane_id in rows}
