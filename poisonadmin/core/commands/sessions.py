"""Ends sessions of the dashboard."""

from django.contrib.sessions.models import Session

from poisonadmin.core.queries.sessions import public_key, stored_sessions


def end_sessions(account_id: int, *, key: str | None = None, but: str | None = None) -> int:
    """End the sessions of an account, or the one with this public key; return how many. `but`: the key of one that
    goes on.
    """
    mine = [one.pk for one, _ in stored_sessions(account_id) if key in (None, public_key(one.pk)) and one.pk != but]
    return Session.objects.filter(pk__in=mine).delete()[0]
