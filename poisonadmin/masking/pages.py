"""Masking rules: the list, and the form for administrators."""

from typing import ClassVar

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.masking.commands import delete_masking_rule, save_masking_rule
from poisonadmin.masking.domain import MaskingRuleFields, checked_rule
from poisonadmin.masking.queries import get_masking_rule, list_masking_rules
from poisonadmin.web.pages.forms import saved_or_shown
from poisonadmin.web.pages.setting_fields import SettingsForm
from poisonadmin.web.pages.views import Section, SidebarEntry, page


class MaskingRuleForm(SettingsForm):
    """A masking rule."""

    object_type = "masking_rule"
    key = "id"
    keeps = ()
    layout: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Where, and for whom not", "match allowed_roles"),
        ("What: one of these, or the whole message", "json_path header key regex"),
    )
    settings = settings_of(MaskingRuleFields)

    def check(self) -> None:
        """Raise what the command would refuse."""
        checked_rule(MaskingRuleFields(**self.values()))


@page(filters=(), sidebar=SidebarEntry(Section.SYSTEM, 70, "Masking", "eye-off", "k"), topic="use/masking")
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the rules by pattern."""
    return render(request, "masking/rules.html", {"rows": list_masking_rules(principal=principal)})


@page(Permission.CONFIGURE)
def edit(request: HttpRequest, principal: Principal, masking_rule_id: int | None = None) -> HttpResponseBase:
    """Show the form of a rule, or of a new one, and save it when it is sent."""
    row = None if masking_rule_id is None else get_masking_rule(masking_rule_id, principal=principal)
    form = MaskingRuleForm(request.POST if request.method == "POST" else None, row)

    def save() -> str:
        fields = MaskingRuleFields(**form.values())
        version = form.expected_version()
        save_masking_rule(fields, principal=principal, rule_id=masking_rule_id, expected_version=version)
        notes.success(request, f"The masking rule about {fields.match} is saved; it holds from now on.")
        return reverse("masking")

    return saved_or_shown(request, form, save, "masking/rule.html", lambda: {"rule": row})


@require_POST
@page(Permission.CONFIGURE)
def delete(request: HttpRequest, principal: Principal, masking_rule_id: int) -> HttpResponseBase:
    """Remove a rule."""
    row = get_masking_rule(masking_rule_id, principal=principal)
    delete_masking_rule(masking_rule_id, principal=principal)
    notes.success(request, f"The masking rule about {row.match} is deleted.")
    return HttpResponseRedirect(reverse("masking"))


urlpatterns = [
    path("masking/", show_all, name="masking"),
    path("masking/new/", edit, name="masking-new"),
    path("masking/<int:masking_rule_id>/", edit, name="masking-rule"),
    path("masking/<int:masking_rule_id>/delete/", delete, name="masking-delete"),
]
