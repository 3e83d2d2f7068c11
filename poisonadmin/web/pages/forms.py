"""Forms of the pages: Django's, drawn with our classes by `web/_form.html`, with our errors at their fields.

A field only reads its text as what it is to be. What a value may be, domains and commands say when it is saved.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from poisonadmin.core.domain.errors import PoisonAdminError

_LONG_CHARS, _SHORT_CHARS = 100, 20


class DrawnField(forms.BoundField):
    """A field as our pages draw it."""

    def build_widget_attrs(self, attrs: dict[str, Any], widget: forms.Widget | None = None) -> dict[str, Any]:
        """Return Django's attributes behind the id and the classes of our style sheet."""
        drawn = widget or self.field.widget
        attrs = super().build_widget_attrs(attrs, widget)
        if drawn.is_hidden:
            return attrs
        is_box, is_select = isinstance(drawn, forms.CheckboxInput), isinstance(drawn, forms.Select)
        kind = "form-check-input" if is_box else "form-select" if is_select else "form-control"
        return {"id": self.auto_id, "class": f"{kind} is-invalid" if self.errors else kind} | attrs

    @property
    def is_wide(self) -> bool:
        """Whether it takes, or offers, long texts."""
        widget = self.field.widget
        if isinstance(widget, forms.Select):
            return any(len(str(label)) > _SHORT_CHARS for _, label in widget.choices)
        is_long = (getattr(self.field, "max_length", None) or 0) >= _LONG_CHARS
        return "rows" in widget.attrs or (is_long and not isinstance(widget, forms.PasswordInput))


class SecretInput(forms.PasswordInput):
    """A line that is never shown again, though it can be read while it is typed."""

    input_type = "text"


class SecretLines(forms.Textarea):
    """Lines that are never shown again."""

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:  # noqa: ARG002
        """Leave the value out."""
        return super().get_context(name, None, attrs)


class ParsedText(forms.CharField):
    """A text of which `read` makes a value, and `write` a text again; None where it is empty.

    Errors of `read` are ours, and are shown at the field.
    """

    def __init__(self, read: Callable[[str], Any], write: Callable[[Any], str] = str, **more: Any) -> None:
        super().__init__(**more)
        self.read, self.write = read, write

    def to_python(self, value: Any) -> Any:
        """Return the value of a text."""
        text = super().to_python(value)
        self.run_validators(text)
        try:
            return self.read(text) if text else None
        except PoisonAdminError as error:
            raise forms.ValidationError(error.detail) from None

    def prepare_value(self, value: Any) -> Any:
        """Return the text of a value; what was typed as it is."""
        return value if value is None or isinstance(value, str) else self.write(value)


class PageForm(forms.Form):
    """The base of our forms.

    `layout`: its sections, each with a title and the names of its fields, in order; `rest`: the title of all others.
    `has_secrets`: something has to be typed again when the form is shown again.
    """

    bound_field_class = DrawnField
    layout: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    rest: ClassVar[str] = ""
    has_secrets: ClassVar[bool] = False

    def __init__(self, data: Mapping[str, Any] | None = None, **more: Any) -> None:
        super().__init__(data, auto_id="%s", **more)

    def sections(self) -> list[tuple[str, list[forms.BoundField]]]:
        """Return the fields by section."""
        placed = {name for _, names in self.layout for name in names}
        others = tuple(field.name for field in self.visible_fields() if field.name not in placed)
        found = [
            (title, [self[name] for name in names if name in self.fields])
            for title, names in (*self.layout, (self.rest, others))
        ]
        return [section for section in found if section[1]]

    def wrong(self) -> list[forms.BoundField]:
        """Return the visible fields that have errors."""
        return [field for field in self.visible_fields() if field.errors]

    def filled_in(self) -> dict[str, Any]:
        """Return the values that were not left empty."""
        return {name: value for name, value in self.cleaned_data.items() if value is not None and value not in ("", [])}

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the name of the field that an error of ours is about, as far as it says one."""
        return str(getattr(error, "field", ""))

    def refuse(self, error: PoisonAdminError) -> int:
        """Show the error at its field, or above the form where it is about none; return the status to answer with."""
        name = self.field_of(error)
        self.add_error(name if name in self.fields else None, error.detail)
        return 422 if error.status == 400 else error.status


class VersionedForm(PageForm):
    """A form that changes what was read in a certain version; None: it makes something new."""

    version = forms.IntegerField(required=False, widget=forms.HiddenInput)


def asks(
    label: str,
    *,
    hint: object = "",
    note: str = "",
    needed: bool = False,
    rows: int = 0,
    choices: list[tuple[str, str]] | None = None,
    widget: type[forms.Widget] = forms.TextInput,
    **attrs: Any,
) -> dict[str, Any]:
    """Return the arguments of a field that is drawn so. `hint` stands in it while it is empty, `note` below it.

    `needed` is for the browser: that something is there, the domains check, each with a sentence of its own.
    """
    shown = {"required": needed, "placeholder": hint, "rows": rows} | attrs
    shown = {name: value for name, value in shown.items() if value}
    found: forms.Widget
    if choices is not None:
        found = forms.Select(shown, choices)
    else:
        drawn = forms.Textarea if rows and widget is forms.TextInput else widget
        found = drawn({"spellcheck": "false", "autocomplete": "off"} | shown)
    return {"label": label, "help_text": note, "required": False, "widget": found}


def ticks(label: str, note: str = "", *, initial: bool = False) -> forms.BooleanField:
    """Return a box to tick."""
    return forms.BooleanField(label=label, help_text=note, required=False, initial=initial)


def whole_number(
    label: str, *, limits: tuple[int | None, int | None] = (None, None), initial: int | None = None, **more: Any
) -> forms.IntegerField:
    """Return a field for a whole number; `limits` where no domain checks it."""
    asked = asks(label, inputmode="numeric", **more)
    return forms.IntegerField(min_value=limits[0], max_value=limits[1], initial=initial, **asked)


def decimal_number(label: str, **more: Any) -> forms.FloatField:
    """Return a field for a number."""
    return forms.FloatField(**asks(label, inputmode="decimal", **more))


def texts_by_line(text: str) -> list[str]:
    """Return the lines that are not blank, without the space around them."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def lines_of(label: str, *, rows: int = 4, initial: Sequence[str] = (), **more: Any) -> ParsedText:
    """Return a field for several texts, one a line."""
    return ParsedText(texts_by_line, "\n".join, initial=initial, **asks(label, rows=rows, **more))


def texts_by_comma(label: str, **more: Any) -> ParsedText:
    """Return a field for several texts in one line."""
    return ParsedText(
        lambda text: [part.strip() for part in text.split(",") if part.strip()], ", ".join, **asks(label, **more)
    )


def saved_or_shown(
    request: HttpRequest,
    form: PageForm,
    save: Callable[[], str],
    template: str,
    context: Callable[[], Mapping[str, Any]],
) -> HttpResponse:
    """Show the form; when it was sent, `save` it and go where that says, or show it again with what is wrong."""
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                return HttpResponseRedirect(save())
            except PoisonAdminError as error:
                status = form.refuse(error)
    return render(request, template, {**context(), "form": form}, status=status)
