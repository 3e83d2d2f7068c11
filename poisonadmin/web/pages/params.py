"""Forms for what an action is told besides which messages it is for (decisions/operations/domain/params.py)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django import forms

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.access import OutOfScope
from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS, validate_address
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.decisions.operations.domain.actions import Action
from poisonadmin.decisions.operations.domain.params import MAX_REASON_CHARS
from poisonadmin.groups.domain.annotations import MAX_NOTE_CHARS
from poisonadmin.policies.domain.settings import MAX_DELAY_MS
from poisonadmin.web.pages.forms import PageForm, TextField, drawn, texts_by_comma, texts_by_line, ticks, whole_number
from poisonadmin.web.pages.words import refusal_words

# The fields that ask for a parameter. A whole payload is edited on the page of its message.
FIELDS_OF: dict[str, tuple[str, ...]] = {
    "address": ("address",),
    "json_patch": ("json_patch",),
    "headers": ("headers_set", "headers_remove"),
    "payload": (),
    "owner": ("owner",),
    "tags": ("tags_add", "tags_remove"),
    "note": ("note", "note_remove"),
}
PARAM_FIELDS = tuple(name for names in FIELDS_OF.values() for name in names)
# How an operation's parameters are called where they are shown.
PARAM_WORDS = {
    "address": "To the address",
    "json_patch": "JSON Patch",
    "headers": "Headers",
    "payload_bytes": "Payload in bytes",
    "owner": "Owner",
    "tags": "Tags",
    "note": "Note",
    "waive": "Delivered all the same",
}
# No account is called so.
NOBODY_CHOSEN = "/nobody"
MAX_PATCH_CHARS = 100_000


def _headers(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in texts_by_line(text):
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise InvalidField("headers", f"{line[:80]!r} is not a header, such as X-Tenant: eu.")
        found[name.strip()] = value.strip()
    return found


class ParamsForm(PageForm):
    """The base of forms for an action on messages. `asked`: the names of the fields for its parameters."""

    address = TextField(
        "Deliver to the address",
        read=validate_address,
        most=MAX_ADDRESS_CHARS,
        required=True,
        hint="orders.repaired",
        note="It has to deliver somewhere. Its policy applies from now on.",
    )
    json_patch = TextField(
        "JSON Patch",
        read=lambda text: strict_json.loads(text.encode("utf-8", "backslashreplace")),
        write=lambda value: strict_json.dumps(value).decode(),
        most=MAX_PATCH_CHARS,
        rows=6,
        hint='[{"op": "replace", "path": "/currency", "value": "EUR"}]',
        note="Operations of RFC 6902: add, remove, replace, move, copy, test. A message where one fails is left alone.",
    )
    headers_set = TextField(
        "Set headers",
        read=_headers,
        write=lambda value: "\n".join(f"{name}: {text}" for name, text in value.items()),
        rows=2,
        hint="X-Tenant: eu",
        note="One a line, as Name: value.",
    )
    headers_remove = TextField("Remove headers", read=texts_by_line, write="\n".join, rows=2, note="One name a line.")
    owner = forms.ChoiceField(**drawn("Owner", choices=[]))
    tags_add = texts_by_comma("Add tags", note="Words, separated by commas.")
    tags_remove = texts_by_comma("Remove tags", note="As they are written, separated by commas.")
    note = TextField("Note", most=MAX_NOTE_CHARS, rows=3, note="It takes the place of the note that there is.")
    note_remove = ticks("Remove the note")
    delay_seconds = whole_number("Postpone by", limits=(0, MAX_DELAY_MS // 1000), choices=[])

    def __init__(self, data: Any, action: Action, accounts: Callable[[], Iterable[str]]) -> None:
        super().__init__(data)
        self.asked = [field for name in action.params for field in FIELDS_OF[name]]
        for name in set(PARAM_FIELDS) - set(self.asked):
            del self.fields[name]
        if "owner" in self.fields:
            names = [(name, name) for name in accounts()]
            self.fields["owner"].choices = [  # type: ignore[attr-defined]
                ("", "Leave as it is"),
                (NOBODY_CHOSEN, "Nobody"),
                *names,
            ]
        if action.delays:
            self.fields["delay_seconds"].widget.choices = action.delays
        else:
            del self.fields["delay_seconds"]

    def params(self) -> dict[str, Any]:
        """Return what the action is told besides which messages."""
        return params_of(self.cleaned_data, self.asked)


def reason_field(**options: Any) -> TextField:
    """Return the field for the reason of a decision on messages."""
    hint = "Why? It is kept in the history and the audit log."
    return TextField("Reason", most=MAX_REASON_CHARS, rows=3, hint=hint, **options)


def params_of(typed: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Return the parameters that were typed into these fields."""
    given = {name: typed[name] for name in fields if typed.get(name)}
    if given.get("owner") == NOBODY_CHOSEN:
        given["owner"] = None
    if given.pop("note_remove", False):
        given["note"] = None
    for name in ("headers", "tags"):
        parts = {one.removeprefix(f"{name}_"): given.pop(one) for one in FIELDS_OF[name] if one in given}
        given |= {name: parts} if parts else {}
    return given


def param_lines(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what an operation was told besides which messages, as pages show it.

    >>> param_lines({"owner": None, "tags": {"add": ["eu"], "remove": ["new", "x"]}})
    [('Owner', 'nobody'), ('Tags', 'add eu; remove new, x')]
    >>> param_lines({"waive": []})
    []
    """
    words: dict[str, Callable[[Any], str]] = {
        "owner": lambda owner: owner or "nobody",
        "note": lambda note: note or "none",
        "waive": lambda codes: "; ".join(map(refusal_words, codes)),
        "tags": lambda tags: "; ".join(f"{what} {', '.join(some)}" for what, some in tags.items() if some),
    }
    return [
        (PARAM_WORDS[name], words.get(name, _words)(given))
        for name, given in params.items()
        if name in PARAM_WORDS and (given or name != "waive")
    ]


def _words(given: Any) -> str:
    return given if isinstance(given, str) else strict_json.dumps(given).decode()


def field_of(error: InvalidField | OutOfScope) -> str:
    """Return the name of the field that an error of a parameter is about."""
    name = error.field.removeprefix("params.").split(".")[0]
    return FIELDS_OF[name][0] if FIELDS_OF.get(name) else name
