"""Forms of the pages: Django's, drawn with our classes by `web/_form.html`, with our errors at their fields.

A field only reads its text as what it is to be. What a value may be, domains and commands say: they are asked for all
fields at once, and again when it is saved.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from poisonadmin.core.commands.audit import LastChange, last_change
from poisonadmin.core.domain.durations import milliseconds_of, written
from poisonadmin.core.domain.errors import NEW, AlreadyExists, InvalidField, PoisonAdminError, PreconditionFailed
from poisonadmin.core.domain.settings import InvalidValue

_LONG_CHARS, _SHORT_CHARS = 100, 20
MAX_NUMBER_CHARS = 20


class DrawnField(forms.BoundField):
    """A field as our pages draw it."""

    def build_widget_attrs(self, attrs: dict[str, Any], widget: forms.Widget | None = None) -> dict[str, Any]:
        """Return Django's attributes behind the id and the classes of our style sheet."""
        drawn = widget or self.field.widget
        attrs = super().build_widget_attrs(attrs, widget)
        if drawn.is_hidden:
            return attrs
        is_box = isinstance(drawn, forms.CheckboxInput | forms.CheckboxSelectMultiple)
        is_select = isinstance(drawn, forms.Select)
        kind = "form-check-input" if is_box else "form-select" if is_select else "form-control"
        return {"id": self.auto_id, "class": f"{kind} is-invalid" if self.errors else kind} | attrs

    @property
    def is_wide(self) -> bool:
        """True when it takes, or offers, long texts."""
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


def drawn(label: str, *, note: str = "", widget: type[forms.Widget] = forms.TextInput, **attrs: Any) -> dict[str, Any]:
    """Return the arguments of a field that is drawn so: `note` stands below it, `hint` in it while it is empty.

    `needed`: it may not be left empty. `rows` make it a text area, `choices` a list to choose from; the rest are
    attributes of the element.
    """
    choices, needed = attrs.pop("choices", None), attrs.pop("needed", False)
    shown = {"required": needed, "placeholder": attrs.pop("hint", None), **attrs}
    shown = {name: value for name, value in shown.items() if value}
    if choices is not None:
        made: forms.Widget = forms.Select(shown, choices)
    else:
        of = forms.Textarea if "rows" in shown and widget is forms.TextInput else widget
        made = of({"spellcheck": "false", "autocomplete": "off", **shown})
    messages = {"required": "This is required."}
    return {"label": label, "help_text": note, "required": needed, "widget": made, "error_messages": messages}


def sentence_of(error: PoisonAdminError) -> str:
    """Return what is wrong as it stands at its field: a sentence that does not name the field.

    >>> sentence_of(InvalidField("size", "must be a whole number"))
    'Must be a whole number.'
    """
    text = error.reason if isinstance(error, InvalidField) else error.detail
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


class TextField(forms.CharField):
    """A text of at most `most` characters. `read` makes a value of it, None where it is empty; `write` makes it a text.

    Errors of `read` are ours, and are shown at the field.
    """

    def __init__(
        self,
        label: str,
        *,
        read: Callable[[str], Any] | None = None,
        write: Callable[[Any], str] = str,
        most: int | None = None,
        initial: Any = None,
        strip: bool = True,
        **options: Any,
    ) -> None:
        empty = "" if read is None else None
        super().__init__(max_length=most, initial=initial, strip=strip, empty_value=empty, **drawn(label, **options))
        self.read, self.write = read, write

    def to_python(self, value: Any) -> Any:
        """Return the value of a text."""
        text = super().to_python(value)
        if self.read is None or text is None:
            return text
        self.run_validators(text)
        try:
            return self.read(text)
        except PoisonAdminError as error:
            raise forms.ValidationError(sentence_of(error)) from None
        except InvalidValue as error:
            raise forms.ValidationError(sentence_of(InvalidField("", str(error)))) from None

    def prepare_value(self, value: Any) -> Any:
        """Return the text of a value; what was typed as it is."""
        return value if value is None or isinstance(value, str) else self.write(value)


def lines_of(label: str, *, rows: int = 4, **more: Any) -> TextField:
    """Return a field for several texts, one a line."""
    return TextField(label, read=texts_by_line, write="\n".join, rows=rows, **more)


def texts_by_comma(label: str, **more: Any) -> TextField:
    """Return a field for several texts in one line."""
    return TextField(label, read=lambda text: _stripped(text.split(",")), write=", ".join, **more)


def texts_by_line(text: str) -> list[str]:
    """Return the lines that are not blank, without the space around them."""
    return _stripped(text.splitlines())


def headers_by_line(text: str) -> dict[str, str]:
    """Return the headers of lines such as `X-Tenant: shop`. An error repeats no value: it may be a secret."""
    found: dict[str, str] = {}
    for line in texts_by_line(text):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            raise forms.ValidationError("Write each header as X-Tenant: shop.")
        if name in found:
            raise forms.ValidationError(f"The header {name} is there twice.")
        found[name] = value
    return found


def lines_of_headers(headers: Mapping[str, str]) -> str:
    """Return the lines of headers."""
    return "\n".join(f"{name}: {value}" for name, value in headers.items())


def _stripped(texts: Iterable[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip()]


def whole_number(
    label: str, *, limits: tuple[int | None, int | None] = (None, None), initial: int | None = None, **options: Any
) -> forms.IntegerField:
    """Return a field for a whole number; `limits` where no domain checks it."""
    asked = drawn(label, inputmode="numeric", **options)
    return forms.IntegerField(min_value=limits[0], max_value=limits[1], initial=initial, **asked)


def typed_duration(text: str) -> int:
    """Return the milliseconds of a duration; a number alone is in milliseconds already. Errors: `InvalidValue`."""
    return int(text) if text.isdecimal() and len(text) < MAX_NUMBER_CHARS else milliseconds_of(text)


def duration_field(label: str, **options: Any) -> TextField:
    """Return a field for a duration in milliseconds, typed and shown as people write it."""
    return TextField(label, read=typed_duration, write=written, **options)


def decimal_number(label: str, **options: Any) -> forms.FloatField:
    """Return a field for a number."""
    return forms.FloatField(**drawn(label, inputmode="decimal", **options))


def ticks(label: str, note: str = "", *, initial: bool = False) -> forms.BooleanField:
    """Return a box to tick."""
    return forms.BooleanField(label=label, help_text=note, required=False, initial=initial)


class PageForm(forms.Form):
    """The base of our forms.

    `layout`: its sections, each with a title and the names of its fields; `rest`: the title of all others. `undone`:
    what is said first when something is wrong.
    """

    bound_field_class = DrawnField
    layout: ClassVar[tuple[tuple[str, str], ...]] = ()
    rest: ClassVar[str] = ""
    undone: ClassVar[str] = "Nothing was saved."

    def __init__(self, data: Mapping[str, Any] | None = None, **more: Any) -> None:
        super().__init__(data, auto_id="%s", **more)
        self.fields.update(self.more_fields())

    def more_fields(self) -> dict[str, forms.Field]:
        """Return the fields that are no attributes of the class."""
        return {}

    def sections(self) -> list[tuple[str, list[forms.BoundField]]]:
        """Return the fields by section."""
        left = {field.name: field for field in self.visible_fields()}
        found = [(title, [left.pop(name) for name in names.split() if name in left]) for title, names in self.layout]
        return [section for section in (*found, (self.rest, list(left.values()))) if section[1]]

    def wrong(self) -> list[forms.BoundField]:
        """Return the visible fields that have errors."""
        return [field for field in self.visible_fields() if field.errors]

    def retyped(self) -> list[forms.BoundField]:
        """Return the fields in which something was typed that is not shown again."""
        hidden = (forms.PasswordInput, SecretLines)
        return [field for field in self.visible_fields() if isinstance(field.field.widget, hidden) and field.data]

    def check(self) -> None:
        """Raise what a command would refuse of what is filled in; fields that cannot be read have their errors."""

    def clean(self) -> dict[str, Any]:
        """Show each mistake at its field, all of them at once."""
        try:
            self.check()
        except PoisonAdminError as error:
            self.show(error)
        return self.cleaned_data

    def filled_in(self) -> dict[str, Any]:
        """Return the values that were not left empty."""
        return {name: value for name, value in self.cleaned_data.items() if value is not None and value not in ("", [])}

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the name of the field that an error of ours is about, as far as it says one."""
        return str(getattr(error, "field", ""))

    def sentence_of(self, error: PoisonAdminError) -> str:
        """Return what stands at the field of an error."""
        return sentence_of(error)

    def show(self, error: PoisonAdminError) -> None:
        """Show the error at its field, or above the form where it is about none, and so what else is wrong."""
        for one in (error, *error.others):
            name = self.field_of(one)
            if name not in self.errors:
                self.add_error(name if name in self.fields else None, self.sentence_of(one))

    def refuse(self, error: PoisonAdminError) -> int:
        """Show why it was not saved; return the status to answer with."""
        self.show(error)
        return 422 if error.status == 400 else error.status


class StoredForm(PageForm):
    """A form of something that is stored: `row` is what it changes, None for something new. What it `keeps` stays.

    `object_type`: what the audit log calls it; `key`: the field with its name. `conflict`: the change that somebody
    else has saved since the form was shown.
    """

    object_type: ClassVar[str]
    key: ClassVar[str] = "name"
    keeps: ClassVar[tuple[str, ...]] = ("name",)
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)
    conflict: LastChange | None = None

    def __init__(self, data: Mapping[str, Any] | None = None, row: Any = None, **more: Any) -> None:
        super().__init__(data, **more)
        self.row = row
        if row is not None:
            self.initial.update(self.initial_of(row))
            for name in self.keeps:
                self.fields[name].disabled = True

    def initial_of(self, row: Any) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        return {**vars(row), **getattr(row, "config", {})}

    def expected_version(self) -> int:
        """Return the version that is changed, `NEW` where there is none; raise PreconditionFailed."""
        if self.row is None:
            return NEW
        if not self.cleaned_data["version"]:
            raise PreconditionFailed("This form does not say which version it changes. Check it, then save it again.")
        return int(self.cleaned_data["version"])

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error; a name that is taken is an error of the name."""
        return self.key if isinstance(error, AlreadyExists) else super().field_of(error)

    def refuse(self, error: PoisonAdminError) -> int:
        """Show why it was not saved. After a conflict the form is of the version that was in the way."""
        if not isinstance(error, PreconditionFailed):
            return super().refuse(error)
        if self.cleaned_data["version"]:
            self.conflict = last_change(self.object_type, getattr(self.row, self.key))
        if self.conflict is None:
            self.show(error)
        self.data = {**{name: self.data[name] for name in self.data}, "version": self.row.version}
        return error.status


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
