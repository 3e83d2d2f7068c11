"""People and access: accounts with their tokens and sessions; and what the reader may do, and where."""

from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import PERMISSIONS, Permission, Principal, Role, roles_with
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.core.queries.sessions import sessions_of
from poisonadmin.system.commands import managed_accounts as commands
from poisonadmin.system.domain.accounts import MAX_EXPIRY_DAYS, AccountSettings
from poisonadmin.system.queries.accounts import get_account, list_accounts, tokens_of
from poisonadmin.web.pages.forms import PageForm, TextField, lines_of, saved_or_shown, whole_number
from poisonadmin.web.pages.setting_fields import SettingsForm
from poisonadmin.web.pages.views import Section, SidebarEntry, page, require_known

LINK_HOURS = settings.PASSWORD_RESET_TIMEOUT // 3600


class AccountForm(SettingsForm):
    """An account. Its name stays."""

    object_type = "user"
    settings = settings_of(AccountSettings)

    def check(self) -> None:
        """Raise what the command would refuse."""
        commands.check_account(AccountSettings(**self.values()))


class TokenForm(PageForm):
    """A new token of an account."""

    label = TextField("Label", most=100, needed=True, hint="nightly import")
    expires_in_days = whole_number("Expires in days", limits=(1, MAX_EXPIRY_DAYS), initial=90, hint="never")
    scopes = forms.MultipleChoiceField(
        label="May",
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="None ticked: whatever the account may.",
    )
    patterns = lines_of("Addresses", hint="all of the account", rows=2)

    def __init__(self, data: Any, role: str | None) -> None:
        super().__init__(data)
        held = PERMISSIONS[Role(role)] if role else ()
        scopes = [(str(one), str(one).replace("_", " ")) for one in Permission if one in held]
        cast("forms.MultipleChoiceField", self.fields["scopes"]).choices = scopes

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        return {"invalid_token": "label", "invalid_address": "patterns"}.get(error.code, super().field_of(error))


@page(
    Permission.CONFIGURE,
    sidebar=SidebarEntry(Section.SYSTEM, 60, "People and access", "users", "y"),
    topic="operate/access",
)
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the accounts that the reader manages."""
    require_known(request)
    context = {"rows": list_accounts(principal=principal), "limited": not principal.sees_everything}
    return render(request, "system/people.html", context)


@page(Permission.CONFIGURE)
def create(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Show the form of a new account, and create it when it is sent."""
    form = AccountForm(request.POST if request.method == "POST" else None)

    def save() -> str:
        wanted = AccountSettings(**form.values())
        commands.create_account(wanted, principal=principal)
        notes.success(request, f"{wanted.name} has an account. Give them a link to set a password.")
        return reverse("people-one", args=[wanted.name])

    return saved_or_shown(request, form, save, "system/person_new.html", dict)


@page(Permission.CONFIGURE)
def show(request: HttpRequest, principal: Principal, name: str) -> HttpResponseBase:
    """Show an account, and change its role and addresses when the form is sent."""
    row = get_account(name, principal=principal)
    form = AccountForm(request.POST if request.method == "POST" else None, row)

    def save() -> str:
        values = form.values()
        commands.change_account(name, role=values["role"], patterns=values["patterns"], principal=principal)
        notes.success(request, "The account is saved.")
        return reverse("people-one", args=[name])

    return saved_or_shown(request, form, save, "system/person.html", lambda: _shown(request, row))


def _shown(request: HttpRequest, row: Any, **forms: PageForm) -> dict[str, Any]:
    return {
        "row": row,
        "form": AccountForm(None, row),
        "token_form": TokenForm(None, row.role),
        "tokens": tokens_of(row.id),
        "sessions": sessions_of(row.id, own_key=request.session.session_key),
        "link_hours": LINK_HOURS,
    } | forms


@require_POST
@page(Permission.CONFIGURE)
def create_token(request: HttpRequest, principal: Principal, name: str) -> HttpResponseBase:
    """Make a token of an account and show it, this once."""
    row, status = get_account(name, principal=principal), 422
    form = TokenForm(request.POST, row.role)
    if form.is_valid():
        given = {field: value for field, value in form.filled_in().items() if field != "label"}
        try:
            made = commands.create_account_token(name, form.cleaned_data["label"], **given, principal=principal)
            context = {"row": row, "what": "Token", "secret": made.text}
            return render(request, "system/person_secret.html", context)
        except PoisonAdminError as error:
            status = form.refuse(error)
    return render(request, "system/person.html", _shown(request, row, token_form=form), status=status)


@require_POST
@page(Permission.CONFIGURE)
def create_link(request: HttpRequest, principal: Principal, name: str) -> HttpResponseBase:
    """Make a link with which a person sets the account's password, and show it, this once."""
    link = request.build_absolute_uri(commands.password_link(name, principal=principal))
    row = get_account(name, principal=principal)
    context = {"row": row, "what": "Link", "secret": link, "hours": LINK_HOURS}
    return render(request, "system/person_secret.html", context)


@require_POST
@page(Permission.CONFIGURE)
def change(request: HttpRequest, principal: Principal, name: str, what: str) -> HttpResponseBase:
    """Close an account or open it again, revoke a token or end a session."""
    match what, request.POST.get("of", ""):
        case "close", _:
            commands.close_account(name, principal=principal)
            notes.success(request, f"{name} is closed: logins, sessions, tokens and streams have ended.")
        case "reopen", _:
            commands.reopen_account(name, principal=principal)
            notes.success(request, f"{name} may log in again.")
        case "reset", _:
            commands.reset_second_factors(name, principal=principal)
            notes.success(request, f"{name} has no second factor any more, and was logged out everywhere.")
        case "revoke", token_id if token_id.isdecimal():
            commands.revoke_account_token(name, int(token_id), principal=principal)
            notes.success(request, "The token is revoked.")
        case "end", key:
            commands.end_session(name, key, principal=principal)
            notes.success(request, "The session has ended.")
        case _:
            raise NotFound("There is no such change of an account.")
    return HttpResponseRedirect(reverse("people-one", args=[name]))


@page(topic="use/dashboard#roles")
def show_own(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render what the reader may do and where, with the reader's tokens and sessions."""
    require_known(request)
    account_id = _own_id(principal)
    context = {
        "permissions": [(one.replace("_", " "), principal.may(one), roles_with(one)) for one in Permission],
        "tokens": tokens_of(account_id),
        "sessions": sessions_of(account_id, own_key=request.session.session_key),
    }
    return render(request, "system/you.html", context)


@require_POST
@page(topic="use/dashboard#roles")
def end_own(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """End one of the reader's own sessions."""
    name = request.user.get_username()
    commands.end_session(name, request.POST.get("of", ""), principal=principal)
    notes.success(request, "The session has ended.")
    return HttpResponseRedirect(reverse("you"))


def _own_id(principal: Principal) -> int:
    return int(principal.user.removeprefix("user "))


urlpatterns = [
    path("people/", show_all, name="people"),
    path("people/new/", create, name="people-new"),
    path("people/<str:name>/", show, name="people-one"),
    path("people/<str:name>/token/", create_token, name="people-token"),
    path("people/<str:name>/link/", create_link, name="people-link"),
    path("people/<str:name>/change/<slug:what>/", change, name="people-change"),
    path("you/", show_own, name="you"),
    path("you/end/", end_own, name="you-end"),
]
