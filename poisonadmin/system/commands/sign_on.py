"""Accounts as logins by single sign-on make, change and close them, from what the provider's claims give."""

from collections.abc import Mapping
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.db import connection, transaction

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.locks import Lock
from poisonadmin.store.models.access import Access
from poisonadmin.system.commands.accounts import cut_off_streams, deactivate
from poisonadmin.system.domain.sign_on import Grant, NotGranted

ACTOR = "sign-on"


def admit(person: SocialAccount, grant: Grant) -> User:
    """Return the account of a person, made or changed to what is granted. Errors: `NotGranted`.

    The provider's id of the person finds the account, and nothing else does: no address of mail, no name.
    """
    values: dict[str, Any] = {"role": str(grant.role), "address_patterns": grant.patterns}
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        known = SocialAccount.objects.filter(provider=person.provider, uid=person.uid).first()
        if known is None:
            return _made(person, grant.name, values)
        user: User = known.user
        if not user.is_active:
            raise NotGranted("the account is closed")
        before = Access.objects.filter(user=user).values(*values).first()
        if before != values:
            Access.objects.update_or_create(user=user, defaults=values)
            audit.record(ACTOR, "user.saved", "user", user.get_username(), details={**values, "was": before})
            cut_off_streams()
        return user


def _made(person: SocialAccount, name: str, values: Mapping[str, Any]) -> User:
    if User.objects.filter(username__iexact=name).exists():
        raise NotGranted(f"there is another account {name}")
    user = User(username=name)
    user.set_unusable_password()
    user.save()
    Access.objects.create(user=user, **values)
    person.user = user
    person.save()
    audit.record(ACTOR, "user.created", "user", name, details=values)
    return user


def shut_out(person: SocialAccount) -> None:
    """Close the account of a person to whom nothing is granted any more, where there is one that is open."""
    known = SocialAccount.objects.filter(provider=person.provider, uid=person.uid, user__is_active=True).first()
    if known is not None:
        deactivate(known.user.get_username(), by=ACTOR)
