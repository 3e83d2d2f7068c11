"""Second factors: codes of an app, passkeys and recovery codes, which django-allauth asks for at every login.

Wrong codes count as failed logins of the account and are throttled as these are; a code is taken once, whichever web
process it is sent to; secrets are stored encrypted; whatever happens to a second factor is in the audit log.
"""

from base64 import urlsafe_b64encode
from datetime import datetime
from typing import Any

from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY, get_authentication_records
from allauth.account.internal.flows.login import record_authentication
from allauth.core import context
from allauth.mfa import app_settings, signals
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base import forms
from allauth.mfa.models import Authenticator
from axes.handlers.proxy import AxesProxyHandler
from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.sessions import end_sessions


def _cipher() -> Fernet:
    key = salted_hmac("poisonadmin.second_factors", "key", algorithm="sha256").digest()
    return Fernet(urlsafe_b64encode(key))


class SecondFactors(DefaultMFAAdapter):  # type: ignore[misc]
    """Encrypts secrets with a key of the signing key: with another one, second factors are to be reset."""

    def get_totp_issuer(self) -> str:
        """Return the name that an app shows."""
        return f"PoisonAdmin {settings.ENVIRONMENT_NAME}"

    def encrypt(self, text: str) -> str:
        """Return the secret as it is stored."""
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Return a stored secret; raise ValidationError, as for a wrong code, where the signing key is another one."""
        try:
            return _cipher().decrypt(encrypted_text.encode()).decode()
        except InvalidToken:
            raise self.validation_error("incorrect_code") from None


class _Throttled(forms.BaseAuthenticateForm):  # type: ignore[misc]
    """Takes a code unless the account has to wait, and each code once."""

    def clean_code(self) -> str:
        """Return the code; raise ValidationError."""
        credentials = {"username": self.user.get_username()}
        if AxesProxyHandler.is_locked(context.request, credentials):
            raise ValidationError("Too many failed attempts. Wait, then try again.")
        try:
            code: str = super().clean_code()
            self._take()
        except ValidationError:
            AxesProxyHandler.user_login_failed(type(self), credentials, context.request)
            raise
        return code

    def _take(self) -> None:
        if self.authenticator.type != Authenticator.Type.TOTP:
            return
        now = timezone.now()
        period = app_settings.TOTP_PERIOD
        begins = datetime.fromtimestamp(now.timestamp() // period * period, now.tzinfo)
        unused = Q(last_used_at=None) | Q(last_used_at__lt=begins)
        if not Authenticator.objects.filter(unused, pk=self.authenticator.pk).update(last_used_at=now):
            raise ValidationError("This code was used already. Wait for the next one.")


class AuthenticateForm(_Throttled, forms.AuthenticateForm):  # type: ignore[misc]
    """The second factor of a login."""


class ReauthenticateForm(_Throttled, forms.ReauthenticateForm):  # type: ignore[misc]
    """The second factor, asked for again before it is changed."""


@receiver(signals.authenticator_added)
def _added(request: HttpRequest, user: User, authenticator: Any, **_: Any) -> None:
    """Count it for this session, which has just shown it, and end the others, which began without it."""
    _record("user.second_factor_added", user, authenticator)
    if authenticator.type == Authenticator.Type.RECOVERY_CODES:
        return
    Authenticator.objects.filter(pk=authenticator.pk).update(last_used_at=timezone.now())
    record_authentication(request, user, "mfa", id=authenticator.pk, type=authenticator.type)
    end_sessions(user.pk, but=request.session.session_key)


@receiver(signals.authenticator_removed)
def _removed(request: HttpRequest, user: User, authenticator: Any, **_: Any) -> None:
    """Let the session stand as one without a second factor when none is left."""
    _record("user.second_factor_removed", user, authenticator)
    if not Authenticator.objects.filter(user=user).exclude(type=Authenticator.Type.RECOVERY_CODES).exists():
        others = [one for one in get_authentication_records(request, user) if one["method"] != "mfa"]
        request.session[AUTHENTICATION_METHODS_SESSION_KEY] = others


@receiver(signals.authenticator_reset)
def _reset(user: User, authenticator: Any, **_: Any) -> None:
    _record("user.second_factor_reset", user, authenticator)


def _record(action: str, user: User, authenticator: Any) -> None:
    name = user.get_username()
    audit.record(name, action, "user", name, details={"type": str(authenticator.type)})
