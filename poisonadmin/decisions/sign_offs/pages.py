"""Sign-offs: what waits for one, what was begun without, and the rules that ask for them."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import AlreadyExists, PoisonAdminError
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.decisions.operations.commands.operations import OperationNotChanged
from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.decisions.operations.domain.lifecycle import OperationState
from poisonadmin.decisions.operations.queries.operations import OperationRow, list_operations
from poisonadmin.decisions.sign_offs.commands import (
    HashMismatch,
    check_sign_off_rule,
    delete_sign_off_rule,
    save_sign_off_rule,
    sign_off,
)
from poisonadmin.decisions.sign_offs.domain import SignOffDecision, SignOffLimit, SignOffNeeded
from poisonadmin.decisions.sign_offs.queries import get_sign_off_rule, list_sign_off_rules
from poisonadmin.web.pages.forms import saved_or_shown
from poisonadmin.web.pages.setting_fields import SettingsForm
from poisonadmin.web.pages.views import NO_REASON, Section, SidebarEntry, page, pager, reason_of

SHOWN_WITHOUT = 20


class SignOffRuleForm(SettingsForm):
    """A rule. Its pattern and its action stay: others are another rule."""

    object_type = "sign_off_rule"
    keeps = ("match", "action")
    settings = settings_of(SignOffLimit)

    def check(self) -> None:
        """Raise what the command would refuse."""
        check_sign_off_rule(SignOffLimit(**self.values()))

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        return "match" if isinstance(error, AlreadyExists) else super().field_of(error)


@page(
    filters=(),
    sidebar=SidebarEntry(Section.OPERATIONS, 20, "Sign-offs", "shield", "i"),
    topic="use/operations#sign-off",
)
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render what waits for a sign-off, what was begun without one, and the rules."""
    waiting = list_operations(
        principal=principal, cursor=request.GET.get("cursor"), state=OperationState.WAITING_FOR_SIGN_OFF
    )
    without = list_operations(principal=principal, limit=SHOWN_WITHOUT, broke_glass=True)
    context = {
        "waiting": [(*_shown(row), row.requester == principal.person) for row in waiting.results],
        "pager": pager(request, waiting),
        "without": [_shown(row) for row in without.results],
        "rules": [
            (row, ACTIONS[row.action].verb if row.action else "any") for row in list_sign_off_rules(principal=principal)
        ],
        "may_sign_off": principal.may(Permission.SIGN_OFF),
    }
    return render(request, "sign_offs/sign_offs.html", context)


def _shown(row: OperationRow) -> tuple[OperationRow, Any, SignOffNeeded | None]:
    return row, ACTIONS[row.action], SignOffNeeded(**row.sign_off) if row.sign_off else None


@require_POST
@page(Permission.SIGN_OFF)
def decide(request: HttpRequest, principal: Principal, operation_id: int) -> HttpResponseBase:
    """Sign an operation off, or refuse."""
    target = HttpResponseRedirect(reverse("operations-one", args=[operation_id]))
    decision, reason = request.POST.get("decision"), reason_of(request)
    if decision not in set(SignOffDecision) or not reason:
        notes.error(request, NO_REASON)
        return target
    given_hash = request.POST.get("hash", "")
    try:
        sign_off(operation_id, SignOffDecision(decision), selection_hash=given_hash, reason=reason, principal=principal)
    except (OperationNotChanged, HashMismatch) as error:
        notes.error(request, error.detail)
    return target


@page(Permission.CONFIGURE)
def edit(request: HttpRequest, principal: Principal, sign_off_rule_id: int | None = None) -> HttpResponseBase:
    """Show the form of a rule, and save it when it is sent."""
    row = None if sign_off_rule_id is None else get_sign_off_rule(sign_off_rule_id, principal=principal)
    form = SignOffRuleForm(request.POST if request.method == "POST" else None, row)

    def save() -> str:
        save_sign_off_rule(**form.values(), principal=principal, expected_version=form.expected_version())
        notes.success(request, "The sign-off rule is saved.")
        return reverse("sign_offs")

    return saved_or_shown(request, form, save, "sign_offs/rule.html", lambda: {"rule": row})


@require_POST
@page(Permission.CONFIGURE)
def delete(request: HttpRequest, principal: Principal, sign_off_rule_id: int) -> HttpResponseBase:
    """Remove a rule."""
    get_sign_off_rule(sign_off_rule_id, principal=principal)
    delete_sign_off_rule(sign_off_rule_id, principal=principal)
    notes.success(request, "The sign-off rule is gone. What waits because of it still waits.")
    return HttpResponseRedirect(reverse("sign_offs"))


urlpatterns = [
    path("sign-offs/", show_all, name="sign_offs"),
    path("sign-offs/<int:operation_id>/", decide, name="sign_offs-decide"),
    path("sign-offs/rules/new/", edit, name="sign_offs-new"),
    path("sign-offs/rules/<int:sign_off_rule_id>/", edit, name="sign_offs-one"),
    path("sign-offs/rules/<int:sign_off_rule_id>/delete/", delete, name="sign_offs-delete"),
]
