"""procrastinate's worker, a job queue on PostgreSQL as most people would use it."""

import asyncio
from typing import Any

import procrastinate
import psycopg
from psycopg.conninfo import make_conninfo

from benchmarks.stopwatch import Rate, Stopwatch

DATABASE = "procrastinate_peer"
JOBS_AT_ONCE = 20


def prepare(database_url: str) -> None:
    """Make a database with procrastinate's tables beside ours."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    asyncio.run(_prepare(_app(database_url)))


def work_off(database_url: str, jobs: int) -> Rate:
    """Have one worker do `jobs` jobs that do nothing; deferring is not counted."""
    return asyncio.run(_work_off(_app(database_url), jobs))


def _app(database_url: str) -> procrastinate.App:
    # A connection for each job at once and some for the worker itself.
    connector = procrastinate.PsycopgConnector(
        conninfo=make_conninfo(database_url, dbname=DATABASE), min_size=4, max_size=JOBS_AT_ONCE + 4
    )
    app = procrastinate.App(connector=connector)

    @app.task(name="nothing")
    async def nothing(number: int) -> None:
        """Do nothing."""

    return app


async def _prepare(app: procrastinate.App) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def _work_off(app: procrastinate.App, jobs: int) -> Rate:
    watch = Stopwatch()
    async with app.open_async():
        orders: list[dict[str, Any]] = [{"number": number} for number in range(jobs)]
        await app.configure_task("nothing").batch_defer_async(*orders)
        with watch:
            await app.run_worker_async(wait=False, concurrency=JOBS_AT_ONCE, install_signal_handlers=False)
    return watch.rate(jobs)
