"""`manage.py token create|revoke|list`."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.filter_values import moment
from poisonadmin.store.management.commands._operator import BY, OperatorCommand
from poisonadmin.store.models.access import ApiToken
from poisonadmin.system.commands.accounts import create_token, revoke_token


class Command(OperatorCommand):
    """Tokens are made and revoked here; a token's text is printed once."""

    help = "Create, revoke or list API tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the three actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create")
        create.add_argument("username")
        create.add_argument("name")
        create.add_argument("--scope", action="append", choices=list(Permission), help="repeatable; all when absent")
        create.add_argument("--pattern", action="append", default=[], help="address pattern, repeatable")
        create.add_argument("--expires", help="RFC 3339 time")
        revoke = actions.add_parser("revoke")
        revoke.add_argument("id", type=int)
        actions.add_parser("list")

    def handle(self, *_: Any, **options: Any) -> None:
        """Carry out the action."""
        {"create": self._create, "revoke": self._revoke, "list": self._list}[options["action"]](options)

    def _create(self, options: dict[str, Any]) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['username']}.")
        made = create_token(
            user,
            options["name"],
            scopes=options["scope"] or list(Permission),
            by=BY,
            patterns=options["pattern"],
            expires_at=moment("expires", options["expires"]) if options["expires"] else None,
        )
        self.stdout.write(made.text)

    def _revoke(self, options: dict[str, Any]) -> None:
        revoke_token(options["id"], by=BY)

    def _list(self, _: dict[str, Any]) -> None:
        for row in ApiToken.objects.select_related("user").order_by("id"):
            state = "revoked" if row.revoked_at else f"until {row.expires_at:%F %T}" if row.expires_at else "in force"
            used = f"used {row.last_used_at:%F %T}" if row.last_used_at else "never used"
            limits = ",".join(row.address_patterns) or "#"
            self.stdout.write(
                f"{row.id}\t{row.user.get_username()}\t{row.name}\t{','.join(row.scopes)}\t{limits}\t{state}\t{used}"
            )
