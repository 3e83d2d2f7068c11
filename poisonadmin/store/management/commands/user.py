"""`manage.py user create | deactivate | activate`."""

import sys
from dataclasses import replace
from getpass import getpass
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.store.management.commands._operator import BY, OperatorCommand
from poisonadmin.system.commands.managed_accounts import (
    change_account,
    close_account,
    reopen_account,
    reset_second_factors,
)


class Command(OperatorCommand):
    """A user with a role; the password is asked for at a terminal, else the first line of standard input."""

    help = "Create a user with a role, give an existing one another role, or switch one off and on."
    create_help = (
        "Create a user with a role, or give an existing one another role. The password of a new user is asked for at a"
        " terminal; otherwise it is the first line of standard input. An existing user keeps theirs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help=self.create_help, description=self.create_help)
        create.add_argument("username")
        create.add_argument("--role", choices=list(Role), required=True)
        create.add_argument("--pattern", action="append", default=[], help="address pattern, repeatable; absent: all")
        for action, about in (
            ("deactivate", "end login, sessions and tokens at once"),
            ("activate", "undo it"),
            ("reset-second-factors", "take the second factors away, and end the sessions"),
        ):
            actions.add_parser(action, help=about).add_argument("username")

    def handle(self, *_: Any, **options: Any) -> None:
        """Create the user, change the role, or switch the user off or on."""
        name, principal = options["username"], replace(SYSTEM, name=BY)
        if options["action"] != "create":
            _ACTIONS[options["action"]](name, principal=principal)
            return
        with transaction.atomic():
            if not User.objects.filter(username=name).exists():
                self._made(name)
            change_account(name, role=options["role"], patterns=options["pattern"], principal=principal)

    def _made(self, username: str) -> None:
        password = _asked_for() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        user = User(username=username)
        try:
            user.full_clean(exclude=["password"])
            validate_password(password, user)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        user.set_password(password)
        user.save(force_insert=True)


_ACTIONS = {
    "deactivate": close_account,
    "activate": reopen_account,
    "reset-second-factors": reset_second_factors,
}


def _asked_for() -> str:
    """Return the password that is typed twice, and not shown; raise CommandError."""
    password = getpass("Password: ")
    if getpass("Again: ") != password:
        raise CommandError("The two passwords differ; nobody was created.")
    return password
