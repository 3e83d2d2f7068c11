"""The services that everything else needs: each is embedded, unless the environment names one."""

import contextlib
import os

import psycopg
import redis

from poisonadmin.core.domain.secret_settings import FILE_OF, SPARK_REMOTE
from poisonadmin.embedded import postgres, valkey
from poisonadmin.embedded.environment import Wishes, exported
from poisonadmin.embedded.java import java_home
from poisonadmin.embedded.plan import Plan
from poisonadmin.embedded.spark import ConnectServer
from poisonadmin.embedded.supervisor import Supervisor

_SERVICE_SECONDS = 60.0


def start_services(supervisor: Supervisor, wishes: Wishes, plan: Plan) -> tuple[dict[str, str], str]:
    """Start what is not named; return the environment of every process, and the database's address for its owner.

    Nobody waits for Spark here: its workers do.
    """
    database_url, owner_url = database(supervisor, wishes)
    java = java_home(wishes.home, os.environ)
    environment = exported(
        plan.prepared(os.environ),
        wishes,
        database_url=database_url,
        redis_url=queue(supervisor, wishes),
        java_home=java,
    )
    if plan.needs_spark and wishes.embeds_spark:
        server = ConnectServer(wishes.home, java)
        supervisor.start(server.spec(environment))
        if not server.has_archive:
            supervisor.start(server.training(environment))
        environment |= {FILE_OF[SPARK_REMOTE]: str(server.address_file)}
    return environment, owner_url


def database(supervisor: Supervisor, wishes: Wishes) -> tuple[str, str]:
    """Return the addresses of the database for what runs, and for the owner of its tables."""
    if wishes.database_url:
        url = wishes.database_url
        supervisor.wait_until_ready(
            "the database of DATABASE_URL", lambda: _takes_sessions(url), seconds=_SERVICE_SECONDS
        )
        return url, wishes.migration_database_url or url
    server = postgres.prepare(wishes.home)
    supervisor.start(server.spec)
    supervisor.wait_until_ready("postgres", server.is_ready, seconds=_SERVICE_SECONDS)
    server.separate_roles()
    return server.url, server.owner_url


def queue(supervisor: Supervisor, wishes: Wishes) -> str:
    if wishes.redis_url:
        url = wishes.redis_url
        supervisor.wait_until_ready("the server of REDIS_URL", lambda: _answers_ping(url), seconds=_SERVICE_SECONDS)
        return url
    server = valkey.prepare(wishes.home)
    supervisor.start(server.spec)
    supervisor.wait_until_ready("valkey", server.is_ready, seconds=_SERVICE_SECONDS)
    return server.url


def _takes_sessions(url: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
        return True
    return False


def _answers_ping(url: str) -> bool:
    with contextlib.suppress(redis.RedisError, OSError), redis.Redis.from_url(url, socket_timeout=2) as client:
        return bool(client.ping())
    return False
