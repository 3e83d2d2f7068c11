"""A failure group: its messages, what people say of it, and merging."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time
from typing import Any

from django import forms
from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from poisonadmin.core.commands.audit import note_payload_reads
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError, PreconditionFailed
from poisonadmin.core.domain.filter_values import number
from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.desk.pages.opened_from import latest_messages
from poisonadmin.desk.pages.readable import TreeNode, folded, tree_of_several
from poisonadmin.desk.queries.brief import GroupFindings, findings
from poisonadmin.desk.queries.deployed import group_deployments
from poisonadmin.desk.queries.detail import attempts, payload_start
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.commands.merged_groups import merge, split
from poisonadmin.groups.domain.annotations import MAX_NOTE_CHARS, MAX_URL_CHARS, growth_of
from poisonadmin.groups.queries.groups import GroupDetail, get_group, list_groups
from poisonadmin.messages.queries.payload_removals import PayloadRemoved
from poisonadmin.search.queries.counted import axis_values
from poisonadmin.search.queries.failures import FailureFilter, list_failures
from poisonadmin.search.queries.owners import account_names
from poisonadmin.web.pages.forms import PageForm, TextField, drawn, texts_by_comma
from poisonadmin.web.pages.views import MAX_REASON_CHARS, NO_REASON, dialog, page, reason_of, require_known

# Payloads of failures that are compared, and how large each may be: to mask one, all of it is read.
SAMPLES = 10
SAMPLE_BYTES = 16 * 1024


@page(topic="use/dashboard#failure-groups")
def show(request: HttpRequest, principal: Principal, group_id: int) -> HttpResponseBase:
    """Render one group; a merged one is shown as the group that it was merged into."""
    require_known(request)
    found = get_group(group_id, principal=principal)
    if found.merged_into_id is not None:
        return HttpResponseRedirect(reverse("groups-one", args=[found.merged_into_id]))
    return _page(request, principal, found)


class AnnotationForm(PageForm):
    """Notes, ticket, tags and snooze of a failure group. `revision`: the one that the form changes."""

    revision = forms.IntegerField(widget=forms.HiddenInput)
    owner = forms.ChoiceField(**drawn("Owner", autofocus=True), choices=[])
    snoozed_until = forms.DateField(
        **drawn("Snoozed until", type="date", note="Left out of the lists until this day begins, in UTC."),
    )
    snoozed_until_grown = TextField(
        "Snoozed until it has grown by",
        read=growth_of,
        write=lambda grown: str(grown["by"]),
        hint="100 or 20 %",
        note="Failures from now on, or a share of those that there are. Of this and the day, the first ends it.",
    )
    ticket_url = TextField("Ticket", most=MAX_URL_CHARS, type="url", hint="https://tickets.example.org/OPS-7")
    tags = texts_by_comma("Tags", note="Words, separated by commas.")
    note = TextField("Note", most=MAX_NOTE_CHARS, rows=4)

    def __init__(self, data: Any, group: GroupDetail, principal: Principal) -> None:
        until = group.snoozed_until
        stored = {name: getattr(group, name) for name in ("revision", "ticket_url", "note")}
        stored |= {"owner": group.owner or "", "tags": list(group.tags)}
        left = group.snoozed_failures and max(group.snoozed_failures - group.failures, 1)
        stored |= {"snoozed_until_grown": {"by": left} if left else None}
        super().__init__(data, initial=stored | {"snoozed_until": until and until.astimezone(UTC).date()})
        self.fields["owner"].choices = [("", "Nobody")] + [  # type: ignore[attr-defined]
            (name, name) for name in sorted({*account_names(principal), *([group.owner] if group.owner else [])})
        ]

    def changes(self) -> dict[str, Any]:
        """Return what was changed, as the command takes it."""
        changed = {name: self.cleaned_data[name] for name in self.changed_data if name != "revision"}
        if isinstance(day := changed.get("snoozed_until"), date):
            changed["snoozed_until"] = datetime.combine(day, time(), UTC)
        return changed


@page(Permission.DECIDE, topic="use/dashboard#failure-groups")
def edit(request: HttpRequest, principal: Principal, group_id: int) -> HttpResponseBase:
    """Show the form in the place of what it changes, and save it when it is sent."""
    found = get_group(group_id, principal=principal)
    form = AnnotationForm(request.POST if request.method == "POST" else None, found, principal)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            revision = form.cleaned_data["revision"]
            try:
                annotate(group_id, form.changes(), principal=principal, expected_revision=revision)
            except PoisonAdminError as error:
                status = form.refuse(error)
                if isinstance(error, PreconditionFailed):
                    form.data = {**request.POST.dict(), "revision": str(found.revision)}
            else:
                if request.htmx:  # type: ignore[attr-defined]
                    return _page(request, principal, get_group(group_id, principal=principal))
                return HttpResponseRedirect(reverse("groups-one", args=[group_id]))
    return _page(request, principal, found, form, status)


def _page(
    request: HttpRequest,
    principal: Principal,
    found: GroupDetail,
    form: AnnotationForm | None = None,
    status: int = 200,
) -> HttpResponseBase:
    """Render the group; to htmx what people say of it alone, unless it asks for the counts. With `form`, that is in
    its place."""
    if request.htmx and request.htmx.target != "group-counts":  # type: ignore[attr-defined]
        return render(request, "messages/_annotation.html", {"group": found, "form": form}, status=status)
    may_merge = principal.may(Permission.DECIDE) and principal.sees_everything
    deployments = group_deployments(found, principal=principal, now=timezone.now())
    known = findings(found, deployments.rows, principal=principal)
    context = {
        "group": found,
        "form": form,
        "may_merge": may_merge,
        "deployments": deployments,
        "findings": known,
        "tried": [(one, ACTIONS[one.action]) for one in known.tried],
        "sample": _sample(known, principal),
        "others": _others(found, principal) if may_merge else [],
        **latest_messages("group", str(found.id), found.counts, principal),
        **_example(found, principal),
    }
    return render(request, "messages/group.html", context, status=status)


def _example(found: GroupDetail, principal: Principal) -> dict[str, Any]:
    """Return its latest failure, with the stack."""
    failures = list_failures(FailureFilter(groups=(found.id,)), principal=principal, limit=1).results
    example = next(
        (
            attempt
            for failure in failures
            for attempt in attempts(failure.message_id, principal=principal).results
            if attempt.attempt_number == failure.attempt_number
        ),
        None,
    )
    return {
        "example": example,
        "example_id": failures[0].message_id if failures else None,
        "frames": folded(example.stack) if example and example.stack else [],
    }


def _sample(known: GroupFindings, principal: Principal) -> tuple[int, list[TreeNode]] | None:
    """Return a message and its payload, of the latest failure that has a small one of JSON, as a tree in which is
    marked what it shares with the others; None for whom payloads are not shown."""
    if not principal.may(Permission.READ_PAYLOAD):
        return None
    small = [one.message_id for one in known.recent if known.payload_bytes[one.message_id] <= SAMPLE_BYTES]
    ids = small[:SAMPLES]
    note_payload_reads(principal, ids)
    starts = {}
    for one in ids:
        with suppress(PayloadRemoved, NotFound):
            starts[one] = payload_start(one, principal=principal, most_bytes=SAMPLE_BYTES)
    return tree_of_several(starts)


def _others(found: GroupDetail, principal: Principal) -> list[tuple[int, str]]:
    """Return the groups that this one could be merged with: the latest, those of its class first."""
    others = [one for one in list_groups(principal=principal).results if one.id != found.id]
    likely = sorted(others, key=lambda one: one.error_class != found.error_class)
    return [(one.id, one.title) for one in likely]


@require_POST
@page(Permission.DECIDE)
def merge_into(request: HttpRequest, principal: Principal, group_id: int) -> HttpResponseBase:
    """Merge the chosen groups into this one."""
    return _moved(request, principal, group_id, merge, "{} merged into this one.")


@require_POST
@page(Permission.DECIDE, topic="use/dashboard#failure-groups")
def ask_to_merge(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Ask which of the ticked groups the others become part of, and why. Nothing is changed."""
    ticked = [str(number("value", text)) for text in request.POST.getlist("value")]
    if not principal.sees_everything:
        raise NotFound("Only accounts that see every address merge failure groups.")
    groups = axis_values({"group": ticked}, principal).values()
    context = {"groups": groups, "max_reason": MAX_REASON_CHARS}
    return dialog(request, "messages/_merge.html", "Merge failure groups", context)


@require_POST
@page(Permission.DECIDE)
def merge_ticked(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Merge the ticked groups into the one that was chosen."""
    into = number("into", request.POST.get("into", ""))
    return _moved(request, principal, into, merge, "{} merged into this one.")


@require_POST
@page(Permission.DECIDE)
def split_off(request: HttpRequest, principal: Principal, group_id: int) -> HttpResponseBase:
    """Split the ticked groups off this one."""
    return _moved(request, principal, group_id, split, "{} split off.")


def _moved(
    request: HttpRequest, principal: Principal, group_id: int, move: Callable[..., None], done: str
) -> HttpResponseBase:
    get_group(group_id, principal=principal)
    chosen = [number("group", text) for text in request.POST.getlist("group") if text]
    chosen = [one for one in chosen if one != group_id]
    reason = reason_of(request)
    if not chosen or not reason:
        notes.error(request, NO_REASON if chosen else "Choose at least one group.")
    else:
        try:
            move(group_id, chosen, principal=principal, reason=reason)
            notes.success(request, done.format("1 group is" if len(chosen) == 1 else f"{len(chosen)} groups are"))
        except PoisonAdminError as error:
            notes.error(request, error.detail)
    return HttpResponseRedirect(reverse("groups-one", args=[group_id]))


urlpatterns = [
    path("groups/merge/", ask_to_merge, name="groups-ask-merge"),
    path("groups/merge/now/", merge_ticked, name="groups-merge-ticked"),
    path("groups/<int:group_id>/", show, name="groups-one"),
    path("groups/<int:group_id>/annotation/", edit, name="groups-edit"),
    path("groups/<int:group_id>/merge/", merge_into, name="groups-merge"),
    path("groups/<int:group_id>/split/", split_off, name="groups-split"),
]
