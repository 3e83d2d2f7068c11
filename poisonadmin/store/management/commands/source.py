"""`manage.py source add|list|test|observe|discover`."""

import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError, CommandParser

from poisonadmin.brokers.domain.broker_kinds import BROKERS, kind_of_url, note_of, source_settings
from poisonadmin.brokers.domain.broker_names import DEFAULT_TEMPLATE
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.sanitising import visible
from poisonadmin.core.domain.secret_settings import BROKER_PASSWORD
from poisonadmin.core.domain.settings import InputKind
from poisonadmin.sources.commands.broker_checks import request_broker_check, request_source_check
from poisonadmin.sources.commands.setup import Flow, connect, name_for, pattern_of, way_back
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose, BrokerCheckResult
from poisonadmin.sources.queries import get_broker_check, list_sources
from poisonadmin.store.management.commands._operator import BY, OperatorCommand
from poisonadmin.store.models.intake import Source

PRINCIPAL = replace(SYSTEM, name=BY)
POLL_SECONDS = 0.2
_SETTINGS = [found for found in source_settings() if found[0].input != InputKind.SWITCH]


class Command(OperatorCommand):
    """Sources are made here too; broker checks are made by an io worker, which must run."""

    help = "Add a broker whose dead letters are drained; list sources; test a connection; observe; discover queues."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the five actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        add = actions.add_parser("add", help="drain the queues of a broker")
        _broker_arguments(add)
        add.add_argument("--name", help="of the source; absent: the host's")
        add.add_argument("--return", action="store_true", dest="back", help="also a destination there, and its policy")
        add.add_argument(
            "--match", action="append", default=[], help="with --return: pattern of the policy, repeatable"
        )
        add.add_argument(
            "--confirm-within-ms", type=int, help="with --return: when a consumer's confirmation is overdue"
        )
        actions.add_parser("list", help="list sources")
        checks = {
            "test": "connect, and count what waits",
            "observe": "group what waits by its failures, and leave it there",
            "discover": "list queues",
        }
        for action, words in checks.items():
            check = actions.add_parser(action, help=f"{words}, of a source by its name or of a broker by its URL")
            _broker_arguments(check)

    def handle(self, *_: Any, **options: Any) -> None:
        """Carry out the action."""
        getattr(self, f"_{options['action']}")(options)

    def _add(self, options: dict[str, Any]) -> None:
        url = options["url"]
        confirm = options["confirm_within_ms"]
        if not options["back"] and (options["match"] or confirm is not None):
            raise CommandError("--match and --confirm-within-ms belong to --return.")
        source: dict[str, Any] = {"kind": _kind(url), "config": _config(options), "secrets": _secrets(options)}
        back: dict[str, Any] = {}
        if options["back"]:
            settings = {} if confirm is None else {"confirm_within_ms": confirm}
            patterns = options["match"] or [pattern_of(options["address"] or DEFAULT_TEMPLATE)]
            back = {"destination": way_back(**source, **settings), "patterns": patterns}
        row = connect(Flow(options["name"] or name_for(source["kind"], url), source, **back), principal=PRINCIPAL)
        assert row is not None
        self.stdout.write(f"The source {row.name} drains {', '.join(row.config[BROKERS[row.kind].drained])}.")
        if options["back"]:
            self.stdout.write(f"What is approved goes back by the destination {row.name}.")

    def _list(self, _: dict[str, Any]) -> None:
        for row in list_sources(principal=PRINCIPAL, limit=500).results:
            state = "off" if not row.is_enabled else f"failing: {row.last_error}" if row.is_in_trouble else "on"
            lag = "-" if row.lag is None else row.lag
            place = row.config.get("url", "")
            drained = ",".join(row.drained)
            self.stdout.write(f"{row.id}\t{row.name}\t{row.kind}\t{place}\t{drained}\t{lag}\t{row.accepted}\t{state}")

    def _test(self, options: dict[str, Any]) -> None:
        seen = self._check(BrokerCheckPurpose.CONNECTION, options)
        waiting = "the number of waiting messages is unknown" if seen.depth is None else f"{seen.depth} messages wait"
        self.stdout.write(f"Connected; {waiting}.")

    def _observe(self, options: dict[str, Any]) -> None:
        seen = self._check(BrokerCheckPurpose.GROUPS, options)
        for group in seen.groups:
            last = group.last_failed_at or "-"
            self.stdout.write(f"{group.count}\t{visible(group.title)}\t{visible(','.join(group.addresses))}\t{last}")
        waiting = "an unknown number" if seen.depth is None else seen.depth
        self.stdout.write(f"{seen.groups_of} of {waiting} messages read; nothing was taken.")

    def _discover(self, options: dict[str, Any]) -> None:
        for queue in self._check(BrokerCheckPurpose.QUEUES, options).queues:
            self.stdout.write(f"{visible(queue.name)}\t{'-' if queue.depth is None else queue.depth}\t{queue.why}")

    def _check(self, purpose: BrokerCheckPurpose, options: dict[str, Any]) -> BrokerCheckResult:
        row = Source.objects.filter(name=options["url"]).first()
        if row is not None:
            check_id = request_source_check(row.id, purpose, principal=PRINCIPAL)
        else:
            url, secrets = options["url"], _secrets(options)
            check_id = request_broker_check(_kind(url), _config(options), purpose, principal=PRINCIPAL, secrets=secrets)
        # A check that nobody answers ends as failed by itself.
        while (seen := get_broker_check(check_id, principal=PRINCIPAL)).is_waiting:
            time.sleep(POLL_SECONDS)
        if seen.result is None:
            raise CommandError(seen.error or "The broker check failed.")
        return seen.result


def _broker_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("url", help=", ".join(kind.url_form for kind in BROKERS.values()))
    parser.add_argument("--queue", action="append", default=[], help="a queue or topic, repeatable")
    parser.add_argument("--username")
    parser.add_argument("--password-stdin", action="store_true", help=f"read it there; else it is in {BROKER_PASSWORD}")
    parser.add_argument("--no-verify-tls", action="store_true")
    for setting, kinds in _SETTINGS:
        parser.add_argument(
            f"--{setting.name.replace('_', '-')}",
            type=int if setting.input == InputKind.NUMBER else str,
            help=f"{setting.label}. {note_of(setting, kinds)}",
        )


def _kind(url: str) -> str:
    if (kind := kind_of_url(url)) is not None:
        return kind
    known = ", ".join(f"{scheme}://" for kind in BROKERS.values() for scheme in kind.schemes)
    raise CommandError(f"There is no such source, and a URL begins with one of {known}.")


def _config(options: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {"url": options["url"]}
    config[BROKERS[_kind(options["url"])].drained] = options["queue"]
    config |= {setting.name: options[setting.name] for setting, _ in _SETTINGS if options[setting.name] is not None}
    return config | ({"verify_tls": False} if options["no_verify_tls"] else {})


def _secrets(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the login. Its password is never an argument: other users of a machine see those."""
    password = sys.stdin.readline().rstrip("\n") if options["password_stdin"] else os.environ.get(BROKER_PASSWORD, "")
    named = {"username": options["username"], "password": password}
    return {name: text for name, text in named.items() if text}
