"""Login by OpenID Connect, as django-allauth does it, with what it leaves out.

The signature of the ID token is checked though it comes from the provider itself, and so is a nonce. Nothing but this
token says who somebody is and may. Nobody connects a provider with a local account, and nothing of the request's query
goes to the provider. Whatever is refused is in the audit log: what a stranger can cause, once a minute and network.
"""

import secrets
from datetime import timedelta
from functools import cached_property
from typing import Any

import jwt
import requests
from allauth.account.utils import get_next_redirect_url
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from poisonadmin.core.commands import audit
from poisonadmin.store.models.access import Audit
from poisonadmin.system.commands.sign_on import ACTOR, admit, shut_out
from poisonadmin.system.domain.sign_on import NotGranted, SignOn, granted
from poisonadmin.web.pages.logins import network_of

PROVIDER = "sign-on"
# What a provider signs with; none of these is a secret that we share, or no signature at all.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
LEEWAY_SECONDS = 30
_NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_CLAIMS: Any = {"require": ["iss", "aud", "exp", "iat", "sub"]}


def _settings() -> SignOn:
    """Return the settings of the provider; raise DoesNotExist where there is none."""
    found: SignOn | None = settings.SIGN_ON
    if found is None:
        raise SocialApp.DoesNotExist
    return found


class SignOnProvider(OpenIDConnectProvider):  # type: ignore[misc]
    """The provider of the settings."""

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        """Return how to go to the provider: to log in, and for nothing else that the query may ask for."""
        return {"process": AuthProcess.LOGIN, "next_url": get_next_redirect_url(request)}

    def redirect(self, request: HttpRequest, process: str, next_url: str | None = None, **_: Any) -> HttpResponse:
        """Go to the provider with a nonce, which the session keeps."""
        nonce = secrets.token_urlsafe(24)
        try:
            answer: HttpResponse = super().redirect(
                request, process, next_url, auth_params={"nonce": nonce}, nonce=nonce
            )
        except OAuth2Error as error:
            answer = render_authentication_error(request, self, exception=error)
        return answer

    def get_oauth2_adapter(self, request: HttpRequest) -> "_Exchange":
        """Return what asks the provider."""
        return _Exchange(request)

    def extract_extra_data(self, data: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return what is stored of the claims: nothing."""
        return {}


class _Exchange(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """Asks the provider, and checks its answers."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request, PROVIDER)

    @cached_property
    def openid_config(self) -> dict[str, Any]:
        """The provider's description of itself; raise OAuth2Error."""
        found = self._fetched(self.get_provider().server_url)
        if found.get("issuer") != _settings().issuer or not all(isinstance(found.get(one), str) for one in _NEEDED):
            raise OAuth2Error("issuer: the provider's description is of another one")
        return found

    def complete_login(self, request: Any, app: SocialApp, token: Any, **kwargs: Any) -> SocialLogin:  # noqa: ARG002
        """Return the login of the person that the ID token names; raise OAuth2Error."""
        request.sign_on_claims = claims = self._verified(kwargs["response"].get("id_token"))
        return self.get_provider().sociallogin_from_response(request, {"id_token": claims})

    def _verified(self, id_token: Any) -> dict[str, Any]:
        of = _settings()
        try:
            keys = jwt.PyJWKSet.from_dict(self._fetched(self.openid_config["jwks_uri"]))
            key = keys[jwt.get_unverified_header(id_token)["kid"]]
            claims: dict[str, Any] = jwt.decode(
                id_token, key.key, ALGORITHMS, _CLAIMS, audience=of.client_id, issuer=of.issuer, leeway=LEEWAY_SECONDS
            )
        except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
            raise OAuth2Error(f"id_token: {type(error).__name__}") from error
        if claims.get("azp", of.client_id) != of.client_id:
            raise OAuth2Error("id_token: it was issued to another party")
        return claims

    def _fetched(self, url: str) -> dict[str, Any]:
        try:
            with get_adapter().get_requests_session() as session:
                answer = session.get(url)
                answer.raise_for_status()
                found = answer.json()
        except requests.RequestException as error:
            raise OAuth2Error(f"provider: {type(error).__name__}") from error
        return found if isinstance(found, dict) else {}

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:  # noqa: ARG002
        """Return where the provider sends the browser back to."""
        target = reverse("sign_on_callback")
        return f"{settings.PUBLIC_URL}{target}" if settings.PUBLIC_URL else request.build_absolute_uri(target)


class SignOnAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Says which provider there is, and whom its claims let in."""

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> SignOnProvider:  # noqa: ARG002
        """Return the provider of the settings; raise DoesNotExist where there is none."""
        of = _settings()
        how = {"server_url": of.issuer, "oauth_pkce_enabled": True, "scope": of.scopes}
        app = SocialApp(
            provider="openid_connect",
            provider_id=PROVIDER,
            name=of.label,
            client_id=of.client_id,
            secret=of.client_secret,
            settings=how,
        )
        return SignOnProvider(request, app=app)

    def pre_social_login(self, request: Any, sociallogin: SocialLogin) -> None:
        """Let the person in, with an account of what is granted now; raise ImmediateHttpResponse."""
        claims, nonce = request.sign_on_claims, sociallogin.state.get("nonce")
        if not nonce or not secrets.compare_digest(str(claims.get("nonce", "")), nonce):
            raise refused(request, "nonce")
        try:
            grant = granted(claims, _settings())
        except NotGranted as error:
            shut_out(sociallogin.account)
            raise refused(request, str(error)) from None
        try:
            sociallogin.user = admit(sociallogin.account, grant)
        except NotGranted as error:
            raise refused(request, str(error)) from None

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,  # noqa: ARG002
        error: Any = None,
        exception: Any = None,
        extra_context: Any = None,
    ) -> None:
        """Refuse; raise ImmediateHttpResponse."""
        is_state = exception is None and "state_id" in (extra_context or {})
        text = str(exception) if isinstance(exception, OAuth2Error) else type(exception).__name__
        raise refused(request, "state" if is_state else str(error) if exception is None else text.split(": b'")[0])


def refused(request: HttpRequest, reason: str) -> ImmediateHttpResponse:
    """Return the answer to a login that is refused, and write it down."""
    network = network_of(request) or ""
    lately = timezone.now() - timedelta(minutes=1)
    of_network = Audit.objects.filter(object_type="network", object_id=network, at__gt=lately)
    if not of_network.filter(details__reason=reason[:200]).exists():
        audit.record(ACTOR, "user.sign_on_refused", "network", network, details={"reason": reason[:200]})
    return ImmediateHttpResponse(render(request, "account/sign_on_refused.html", status=403))


@never_cache
def begin(request: HttpRequest) -> HttpResponse:
    """Go to the provider."""
    return _at_provider(OAuth2LoginView, request)


@never_cache
def callback(request: HttpRequest) -> HttpResponse:
    """Take what the provider sends the browser back with."""
    return _at_provider(OAuth2CallbackView, request)


def _at_provider(view: Any, request: HttpRequest) -> HttpResponse:
    try:
        answer: HttpResponse = view.adapter_view(_Exchange(request))(request)
    except SocialApp.DoesNotExist:
        return render(request, "account/sign_on_refused.html", status=404)
    except OAuth2Error as error:
        return refused(request, str(error)).response  # type: ignore[no-any-return]
    return answer


ROUTES = [
    path("sign-on/", begin, name="sign_on"),
    path("sign-on/callback/", callback, name="sign_on_callback"),
]
