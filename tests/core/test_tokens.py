"""Tokens: never more than their owner, never after their end, and kept as a digest."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from poisonadmin.core.commands import authentication
from poisonadmin.core.commands.authentication import InvalidToken
from poisonadmin.core.domain.access import Permission, Role
from poisonadmin.core.domain.addresses import InvalidAddress
from poisonadmin.store.models.access import ApiToken
from poisonadmin.system.commands.accounts import create_token, revoke_token
from tests.fixtures.api import Caller, make_user, take, take_dead

ALL = list(Permission)


@pytest.fixture
def owner(db: None) -> User:
    """Return an administrator."""
    return make_user("owner", Role.ADMIN, [])


def test_only_a_digest_is_kept(owner: User) -> None:
    made = create_token(owner, "t", scopes=ALL, by="test")
    assert made.text.startswith("pa_")
    assert made.text not in str(ApiToken.objects.values().get())


def test_a_token_may_do_what_its_scopes_say(owner: User) -> None:
    reader = Caller(create_token(owner, "t", scopes=["read"], by="test").text)
    message_id = take_dead()
    assert reader.get(f"messages/{message_id}/").status_code == 200
    assert reader.get(f"messages/{message_id}/payload/").status_code == 403
    assert reader.post(f"messages/{message_id}/fail/", {"reason": "r"}).status_code == 403


def test_a_token_never_does_more_than_its_owner(db: None) -> None:
    viewer = make_user("viewer", Role.VIEWER, [])
    caller = Caller(create_token(viewer, "t", scopes=ALL, by="test").text)
    assert caller.post(f"messages/{take_dead()}/fail/", {"reason": "r"}).status_code == 403


def test_the_patterns_of_owner_and_token_must_both_match(db: None) -> None:
    limited = make_user("limited", Role.VIEWER, ["orders.#"])
    caller = Caller(create_token(limited, "t", scopes=ALL, patterns=["*.eu"], by="test").text)
    seen = {address: take(address) for address in ("orders.eu", "orders.us", "bills.eu")}
    assert [caller.get(f"messages/{message_id}/").status_code for message_id in seen.values()] == [200, 404, 404]
    assert [row["address"] for row in caller.get("messages/").json()["results"]] == ["orders.eu"]
    assert set(caller.get("stats/").json()["by_address"]) == {"orders.eu"}


@pytest.mark.parametrize("ago", [timedelta(0), timedelta(seconds=1), timedelta(days=20_000)])
def test_no_token_is_made_that_is_over_already(owner: User, ago: timedelta) -> None:
    with pytest.raises(InvalidToken, match="expires in the future"):
        create_token(owner, "t", scopes=ALL, by="test", expires_at=timezone.now() - ago)
    with pytest.raises(CommandError, match="expires in the future"):
        call_command("token", "create", "owner", "t", "--expires", "2020-01-01T00:00:00Z")
    assert not ApiToken.objects.exists()


def test_an_expired_or_revoked_token_or_that_of_a_locked_user_is_refused(owner: User) -> None:
    expired = create_token(owner, "t", scopes=ALL, by="test", expires_at=timezone.now() + timedelta(days=1))
    ApiToken.objects.filter(id=expired.id).update(expires_at=timezone.now() - timedelta(seconds=1))
    revoked = create_token(owner, "t", scopes=ALL, by="test")
    revoke_token(revoked.id, by="test")
    good = create_token(owner, "t", scopes=ALL, by="test", expires_at=timezone.now() + timedelta(days=1))
    found = [Caller(token.text).get("messages/").status_code for token in (expired, revoked, good)]
    assert found == [401, 401, 200]
    User.objects.update(is_active=False)
    assert Caller(good.text).get("messages/").status_code == 401


def test_the_last_use_is_written_at_most_once_a_minute(owner: User) -> None:
    caller = Caller(create_token(owner, "t", scopes=ALL, by="test").text)
    caller.get("stats/")
    first = ApiToken.objects.get().last_used_at
    caller.get("stats/")
    assert first is not None
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(seconds=61))
    caller.get("stats/")
    assert ApiToken.objects.get().last_used_at > first - timedelta(seconds=61)


def test_a_token_that_could_never_work_is_not_made(owner: User) -> None:
    nobody = User.objects.create(username="nobody")
    for user, name, scopes in ((owner, "", ALL), (owner, "t", ["everything"]), (nobody, "t", ALL)):
        with pytest.raises(authentication.InvalidToken):
            create_token(user, name, scopes=scopes, by="test")
    with pytest.raises(InvalidAddress):
        create_token(owner, "t", scopes=ALL, patterns=["a..b"], by="test")


def test_the_command_creates_lists_and_revokes(owner: User, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("token", "create", "owner", "ci", "--scope", "read", "--pattern", "orders.#")
    text = capsys.readouterr().out.strip()
    assert Caller(text).get("stats/").status_code == 200
    call_command("token", "list")
    assert "ci\tread\torders.#\tin force" in capsys.readouterr().out
    call_command("token", "revoke", str(ApiToken.objects.get().id))
    assert Caller(text).get("stats/").status_code == 401
