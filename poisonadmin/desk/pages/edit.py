"""Editing one message: its payload and headers as they would be delivered, and what its versions have changed."""

from typing import Any

from django import forms
from django.contrib import messages as notes
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.core.commands.audit import note_payload_reads
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import ACTIONS, OperationAction
from poisonadmin.decisions.operations.domain.params import MAX_EDITED_BYTES, InvalidOperation, checked_params
from poisonadmin.decisions.operations.queries.change_preview import ChangeSample, sample_of
from poisonadmin.decisions.queries.payload_changes import NotChanged
from poisonadmin.decisions.queries.refusals import PAYLOAD_REMOVED
from poisonadmin.desk.pages.opened_from import PARAMETER, opened_from
from poisonadmin.desk.queries.detail import (
    get_message,
    masks_at,
    payload_start,
    version_diff,
    version_payload,
    versions,
)
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.detail_rows import MessageDetail
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.pages.forms import PageForm, TextField, sentence_of
from poisonadmin.web.pages.params import ParamsForm, field_of, params_of, reason_field
from poisonadmin.web.pages.views import page
from poisonadmin.web.pages.words import SIGN_OFF_NEEDED, refusal_words


class EditForm(PageForm):
    """The new content of a message. `before`: its payload as text, None where it cannot be edited as one."""

    payload = TextField("Payload", rows=18, strip=False)
    headers_set = ParamsForm.base_fields["headers_set"]
    headers_remove = ParamsForm.base_fields["headers_remove"]
    attempt = forms.IntegerField(required=False, widget=forms.HiddenInput)
    reason = reason_field(required=True)

    def __init__(self, data: Any, before: str | None) -> None:
        super().__init__(data, initial={"payload": before})
        self.before = before
        if before is None:
            del self.fields["payload"]

    def params(self) -> dict[str, Any]:
        """Return what is changed. Errors: `InvalidOperation`."""
        given = params_of(self.cleaned_data, ("headers_set", "headers_remove"))
        if self.before is not None:
            typed = _with_line_ends(self.cleaned_data["payload"], self.before)
            if typed != self.before:
                given["payload"] = typed
        if not given:
            raise InvalidOperation("payload", "Nothing is changed yet.")
        return checked_params(OperationAction.PATCH, given)


def _with_line_ends(typed: str, before: str) -> str:
    """Return a text as it was typed: browsers send CR and LF for each end of a line.

    >>> _with_line_ends("a\\r\\nb", "x\\ny"), _with_line_ends("a\\r\\nb", "x\\r\\ny")
    ('a\\nb', 'a\\r\\nb')
    """
    lines = typed.replace("\r\n", "\n")
    has_crlf = "\r\n" in before and "\n" not in before.replace("\r\n", "")
    return lines.replace("\n", "\r\n") if has_crlf else lines


@page(Permission.DECIDE, filters=(PARAMETER,), topic="use/operations#patching")
def edit(request: HttpRequest, principal: Principal, message_id: int) -> HttpResponseBase:
    """Show payload and headers to be edited, then what that changes; deliver the message when it is confirmed."""
    principal.require(Permission.READ_PAYLOAD)
    message = get_message(message_id, principal=principal.as_reader)
    if message.state != State.NDLV:
        notes.warning(request, f"Message #{message_id} cannot be edited: {refusal_words(message.state)}.")
        return HttpResponseRedirect(reverse("messages-one", args=[message_id]))
    if message.payload_removed_at is not None:
        notes.warning(request, f"Message #{message_id} cannot be edited: {refusal_words(PAYLOAD_REMOVED)}.")
        return HttpResponseRedirect(reverse("messages-one", args=[message_id]))
    if masks_at(message_id, principal):
        notes.warning(request, f"Message #{message_id} cannot be edited: parts of it are masked for you.")
        return HttpResponseRedirect(reverse("messages-one", args=[message_id]))
    note_payload_reads(principal, [message_id])
    form = EditForm(request.POST if request.method == "POST" else None, _text(message, principal))
    sample = None
    if form.is_bound:
        sample = _sample(form, message)
        if sample is not None and "begin" in request.POST:
            if not form.cleaned_data.get("reason"):
                form.add_error("reason", "Say why; the reason is kept with the message.")
            else:
                # What comes next is read before the message leaves the list.
                opened = opened_from(request, message_id, principal)
                after = (opened.next or opened.back) if opened else None
                if not form.errors and (target := _deliver(request, form, message_id, principal, after=after)):
                    return HttpResponseRedirect(target)
    context = {
        "message": message,
        "action": ACTIONS[OperationAction.PATCH],
        "form": form,
        "edited": [form[name] for name in ("payload", "headers_set", "headers_remove") if name in form.fields],
        "headers": sorted(message.headers.items()),
        "sample": sample,
    }
    return render(request, "messages/edit.html", context, status=422 if form.errors else 200)


def _text(message: MessageDetail, principal: Principal) -> str | None:
    if message.payload_bytes > MAX_EDITED_BYTES:
        return None
    try:
        text = payload_start(message.id, principal=principal, most_bytes=MAX_EDITED_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _sample(form: EditForm, message: MessageDetail) -> ChangeSample | None:
    """Return what the form changes; None, with the errors in the form, where that cannot be."""
    if not form.is_valid():
        return None
    try:
        return sample_of(message.id, form.params())
    except InvalidOperation as error:
        name = field_of(error)
        form.add_error(name if name in form.fields else None, sentence_of(error))
    except NotChanged as error:
        form.add_error(None, f"Nothing can be delivered: {refusal_words(error.code)}.")
    return None


def _deliver(
    request: HttpRequest, form: EditForm, message_id: int, principal: Principal, *, after: str | None
) -> str | None:
    """Deliver the message, or have it wait for a sign-off; return the page to show, None where neither can be.

    `after`: the page that follows in the list that the message was opened from.
    """
    try:
        decided = decide_on(
            [message_id],
            OperationAction.PATCH,
            params=form.params(),
            reason=form.cleaned_data["reason"],
            principal=principal,
            is_one=True,
            expected_state=str(State.NDLV),
            expected_attempt=form.cleaned_data["attempt"],
        )
    except PoisonAdminError as error:
        form.add_error(None, error.detail)
        return None
    if decided.awaits is not None:
        notes.warning(request, SIGN_OFF_NEEDED)
        return reverse("operations-one", args=[decided.awaits])
    notes.success(request, f"Message #{message_id} was changed, and will be delivered now.")
    return after or reverse("messages-one", args=[message_id])


@page(Permission.READ_PAYLOAD, filters=(), topic="use/operations#patching")
def version(request: HttpRequest, principal: Principal, message_id: int, number: int) -> HttpResponseBase:
    """Show what a version of a message has changed."""
    found = {one.number: one for one in versions(message_id, principal=principal.as_reader)}
    if number not in found or number - 1 not in found:
        raise Http404(number)
    note_payload_reads(principal, [message_id])
    lines = version_diff(message_id, number, principal=principal, most_bytes=MAX_EDITED_BYTES)
    context = {
        "message_id": message_id,
        "version": found[number],
        "former": found[number - 1],
        "lines": lines,
    }
    return render(request, "messages/version.html", context)


@page(Permission.READ_PAYLOAD, filters=())
def download(request: HttpRequest, principal: Principal, message_id: int, number: int) -> HttpResponseBase:
    """Answer with the payload of a version."""
    found = version_payload(message_id, number, principal=principal)
    note_payload_reads(principal, [message_id])
    return attachment(request, found, f"message-{message_id}-version-{number}.bin")


urlpatterns = [
    path("messages/<int:message_id>/edit/", edit, name="messages-edit"),
    path("messages/<int:message_id>/versions/<int:number>/", version, name="messages-version"),
    path("messages/<int:message_id>/versions/<int:number>/payload/", download, name="messages-version-payload"),
]
