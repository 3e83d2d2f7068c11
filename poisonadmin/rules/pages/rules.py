"""Rules: the two tables, one rule with what a dry run has found, and the form for administrators."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST
from django_htmx.http import reselect, reswap, retarget

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.masking import Masked
from poisonadmin.rules import commands
from poisonadmin.rules.domain.fields import InvalidRule
from poisonadmin.rules.domain.rules import Stage, checked_match
from poisonadmin.rules.pages.condition_formatter import action_text, match_lines
from poisonadmin.rules.pages.form import FORMS, RuleForm
from poisonadmin.rules.queries import DryRunNotFound, DryRunRow, RuleRow, get_rule, latest_dry_run, list_rules
from poisonadmin.web.pages.forms import saved_or_shown
from poisonadmin.web.pages.views import (
    MAX_REASON_CHARS,
    NO_REASON,
    Section,
    SidebarEntry,
    page,
    reason_of,
    require_known,
)

_TABLES = (
    (Stage.BEFORE, "Before a delivery", "Every message is delivered, whatever it holds."),
    (Stage.AFTER, "After a failure", "The policy of its address decides what follows a failure."),
)


@page(sidebar=SidebarEntry(Section.FLOWS, 50, "Rules", "filter", "e"), topic="use/rules")
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the two tables in the order in which their rules are asked."""
    require_known(request)
    rows = list_rules(principal=principal)
    tables = [
        {"stage": stage, "title": title, "lead": lead, "rows": [_described(row) for row in rows if row.stage == stage]}
        for stage, title, lead in _TABLES
    ]
    return render(request, "rules/rules.html", {"tables": tables, "may_order": principal.sees_everything})


@page()
def show(request: HttpRequest, principal: Principal, rule_id: int) -> HttpResponseBase:
    """Render one rule, and what its latest dry run has found."""
    require_known(request)
    return _show(request, principal, rule_id)


@page(Permission.CONFIGURE)
def edit(
    request: HttpRequest, principal: Principal, rule_id: int | None = None, stage: str = Stage.BEFORE
) -> HttpResponseBase:
    """Show the form of a rule, and save it when it is sent."""
    row = None if rule_id is None else get_rule(rule_id, principal=principal)
    of = FORMS[Stage(row.stage if row else stage)]
    initial = {"owner": principal.name} | ({} if row else _asked_match(request, of))
    form = of(request.POST if request.method == "POST" else None, row, initial=initial)

    def save() -> str:
        fields = form.rule()
        if row is None:
            saved = commands.create_rule(form.stage, fields, principal=principal)
        else:
            version = form.expected_version()
            saved = commands.replace_rule(row.id, fields, principal=principal, expected_version=version)
        notes.success(request, f"The rule {saved.name} is saved.")
        return reverse("rules-one", args=[saved.id])

    return saved_or_shown(request, form, save, "rules/rule_form.html", lambda: {"rule": row})


def _asked_match(request: HttpRequest, form: type[RuleForm]) -> dict[str, Any]:
    """Return the conditions that a link has prepared (`match`, as JSON). Errors: `InvalidRule`, `InvalidJson`."""
    if "match" not in request.GET:
        return {}
    match = strict_json.loads(request.GET["match"].encode("utf-8", "backslashreplace"))
    if not isinstance(match, dict):
        raise InvalidRule("match", "must be a JSON object.")
    return dict(checked_match(form.stage, match))


@require_POST
@page(Permission.CONFIGURE)
def switch(request: HttpRequest, principal: Principal, rule_id: int, change: str) -> HttpResponseBase:
    """Switch the rule on or off, with a reason."""
    reason = reason_of(request)
    if not reason:
        return _show(request, principal, rule_id, NO_REASON, 422)
    try:
        if change == "disable":
            row = commands.disable_rule(rule_id, principal=principal, reason=reason)
        else:
            override = request.POST.get("without_dry_run") == "true"
            row = commands.enable_rule(rule_id, principal=principal, reason=reason, override=override)
    except commands.NotDryRun as error:
        return _show(request, principal, rule_id, error.detail, error.status)
    notes.success(request, f"The rule {row.name} is {'on' if row.is_enabled else 'off'}.")
    return HttpResponseRedirect(reverse("rules-one", args=[rule_id]))


@require_POST
@page(Permission.CONFIGURE)
def dry_run(request: HttpRequest, principal: Principal, rule_id: int) -> HttpResponseBase:
    """Have the rule tried on what waits or is undecided."""
    commands.request_dry_run(rule_id, principal=principal)
    notes.success(request, "The rule is being tried on the stored messages; nothing is changed.")
    return HttpResponseRedirect(reverse("rules-one", args=[rule_id]))


@require_POST
@page(Permission.CONFIGURE)
def move(request: HttpRequest, principal: Principal, rule_id: int) -> HttpResponseBase:
    """Give the rule another place in its table."""
    position = request.POST.get("position", "")
    number = int(position) if position.isascii() and position.isdigit() and len(position) < 8 else 0
    commands.move_rule(rule_id, number, principal=principal)
    return HttpResponseRedirect(reverse("rules"))


@require_POST
@page(Permission.CONFIGURE)
def delete(request: HttpRequest, principal: Principal, rule_id: int) -> HttpResponseBase:
    """Remove the rule."""
    row = get_rule(rule_id, principal=principal)
    commands.delete_rule(rule_id, principal=principal)
    notes.success(request, f"The rule {row.name} is gone. What it has decided stays decided.")
    return HttpResponseRedirect(reverse("rules"))


def _described(row: RuleRow) -> dict[str, Any]:
    return {"rule": row, "matches": match_lines(row.match), "does": action_text(row.action)}


def _show(request: HttpRequest, principal: Principal, rule_id: int, error: str = "", status: int = 200) -> HttpResponse:
    row = get_rule(rule_id, principal=principal)
    tried: DryRunRow | None = None
    withheld = ""
    try:
        tried = latest_dry_run(rule_id, principal=principal)
    except DryRunNotFound:
        pass
    except Masked as refusal:
        withheld = refusal.detail
    is_running = tried is not None and not tried.is_over
    # The page asks again while a dry run is under way. Its end changes more than the result: the whole page is new.
    has_ended = bool(request.htmx) and not is_running  # type: ignore[attr-defined]
    if has_ended:
        notes.success(request, "The dry run has ended.")
    context = _described(row) | {
        "dry_run": tried,
        "withheld": withheld,
        "is_running": is_running,
        "is_outdated": tried is not None and tried.rule_version != row.version and not row.is_dry_run,
        "needs_dry_run": row.stage == Stage.BEFORE and not row.is_dry_run,
        "error": error,
        "max_reason": MAX_REASON_CHARS,
    }
    answer = render(request, "rules/rule.html", context, status=status)
    return reselect(reswap(retarget(answer, "#content"), "outerHTML"), "#content") if has_ended else answer


urlpatterns = [
    path("rules/", show_all, name="rules"),
    path("rules/new/before/", edit, {"stage": "before"}, name="rules-new"),
    path("rules/new/after/", edit, {"stage": "after"}, name="rules-new-after"),
    path("rules/<int:rule_id>/", show, name="rules-one"),
    path("rules/<int:rule_id>/edit/", edit, name="rules-edit"),
    path("rules/<int:rule_id>/enable/", switch, {"change": "enable"}, name="rules-enable"),
    path("rules/<int:rule_id>/disable/", switch, {"change": "disable"}, name="rules-disable"),
    path("rules/<int:rule_id>/dry_run/", dry_run, name="rules-dry_run"),
    path("rules/<int:rule_id>/move/", move, name="rules-move"),
    path("rules/<int:rule_id>/delete/", delete, name="rules-delete"),
]
