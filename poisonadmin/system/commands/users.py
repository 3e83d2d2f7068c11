"""Users as administrators switch them off and on."""

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, transaction

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.locks import POISON_LIST_CHANNEL
from poisonadmin.poison_list.queries.feed import REVOKED


def deactivate(username: str, *, by: str) -> None:
    """Refuse the user from now on: login, sessions, tokens and event streams. Errors: `NotFound`."""
    with transaction.atomic():
        user = _switched(username, is_active=False)
        mine = [one.pk for one in Session.objects.iterator() if one.get_decoded().get(SESSION_KEY) == str(user.pk)]
        Session.objects.filter(pk__in=mine).delete()
        audit.record(by, "user.deactivated", "user", username)
        with connection.cursor() as cursor:
            # Whoever follows the poison list with a token of theirs is cut off at once.
            cursor.execute("SELECT pg_notify(%s, %s)", [POISON_LIST_CHANNEL, REVOKED])


def activate(username: str, *, by: str) -> None:
    """Let the user log in again; their tokens are in force again, their sessions are not. Errors: `NotFound`."""
    with transaction.atomic():
        _switched(username, is_active=True)
        audit.record(by, "user.activated", "user", username)


def _switched(username: str, *, is_active: bool) -> User:
    user = User.objects.select_for_update().filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username}.")
    user.is_active = is_active
    user.save(update_fields=["is_active"])
    return user
