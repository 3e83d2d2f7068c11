"""Fields and forms that are made of declared settings (`core/domain/settings.py`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django import forms

from poisonadmin.core.domain.settings import REQUIRED, InputKind, Setting
from poisonadmin.web.pages.forms import (
    PageForm,
    StoredForm,
    TextField,
    decimal_number,
    lines_of,
    texts_by_line,
    ticks,
    whole_number,
)

# Parameters of the page of messages that narrow nothing.
_OF_THE_LIST = {"cursor", "ordering", "since", "mark", "state"}
_EMPTY: dict[InputKind, Any] = {InputKind.LINES: [], InputKind.PARAMETERS: {}, InputKind.NUMBER: 0}


def field_of(setting: Setting, *, is_sparse: bool = False, **of: Any) -> forms.Field:
    """Return the field of a setting. `is_sparse`: left empty it is not stored, so its default is shown as a hint only.

    `of`: further attributes of the element.
    """
    is_needed = setting.is_needed and not (is_sparse and setting.default is not REQUIRED)
    initial = None if is_sparse or setting.default is REQUIRED else setting.default
    hint = setting.hint or (setting.default if is_sparse and setting.default is not REQUIRED else "")
    drawn = {"note": setting.note, "hint": hint, "needed": is_needed, "rows": setting.rows, **of}
    drawn = {name: value for name, value in drawn.items() if value}
    match setting.input:
        case InputKind.SWITCH:
            return ticks(setting.label, setting.note, initial=setting.default)
        case InputKind.NUMBER:
            return whole_number(setting.label, initial=initial, **drawn)
        case InputKind.DECIMAL:
            return decimal_number(setting.label, **drawn)
        case InputKind.CHOICE:
            of_none = [("", setting.hint)] if setting.default is None else []
            empty = [("", f"default ({setting.default})")] if is_sparse else of_none
            choices = [*empty, *((str(value), words) for value, words in setting.choices.items())]
            return TextField(setting.label, choices=choices, initial=initial and str(initial), **drawn | {"hint": ""})
        case InputKind.LINES:
            return lines_of(setting.label, initial=initial or None, **drawn)
        case InputKind.PARAMETERS:
            return TextField(setting.label, read=_parameters, write=_parameter_lines, rows=4, **drawn)
        case InputKind.TEXT:
            return TextField(setting.label, most=setting.most, initial=initial or None, **drawn)
        case InputKind.OTHER:
            raise TypeError(f"{setting.name} is drawn by its form.")


def _parameters(text: str) -> dict[str, list[str]]:
    """Return the parameters of lines such as `address=orders.#`."""
    found: dict[str, list[str]] = {}
    for line in texts_by_line(text):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not value:
            raise forms.ValidationError(f"{line[:80]!r} is no parameter such as `address=orders.#`.")
        found.setdefault(name, []).append(value)
    return found


def _parameter_lines(parameters: Mapping[str, Sequence[str]]) -> str:
    named = [(name, text) for name, texts in parameters.items() if name not in _OF_THE_LIST for text in texts]
    return "\n".join(f"{name}={text}" for name, text in named)


class SettingsFields(PageForm):
    """A form with declared settings. A field that is an attribute of the class replaces the declared one."""

    settings: ClassVar[Mapping[str, Setting]] = {}

    def more_fields(self) -> dict[str, forms.Field]:
        """Return the fields of the settings."""
        own = {name for name, one in self.settings.items() if one.input is InputKind.OTHER or name in self.base_fields}
        drawn = {name: field_of(setting) for name, setting in self.settings.items() if name not in own}
        return super().more_fields() | drawn

    def values(self) -> dict[str, Any]:
        """Return the settings as typed; one that is left empty, or cannot be read, has its default."""
        typed = self.filled_in()
        return {name: typed.get(name, _default_of(setting)) for name, setting in self.settings.items()}


class SettingsForm(SettingsFields, StoredForm):
    """A form of something that is stored, whose settings are declared."""


class ConfiguredForm(SettingsForm):
    """A form of a source or a destination, which have a kind, a configuration and perhaps secrets.

    `configured`: the settings of its configuration. `only_kind`: the kind, where no field asks for it.
    `check_settings`: raises what the command that saves it would refuse of `arguments`.
    """

    configured: ClassVar[Sequence[Setting]] = ()
    only_kind: ClassVar[str] = ""
    check_arguments: ClassVar[Callable[..., Any]]

    def more_fields(self) -> dict[str, forms.Field]:
        """Return the fields of the settings, and of those of the configuration."""
        drawn = {one.name: one for one in self.configured if one.input is not InputKind.OTHER}
        return super().more_fields() | {name: field_of(setting, is_sparse=True) for name, setting in drawn.items()}

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        typed = self.filled_in()
        return {setting.name: typed[setting.name] for setting in self.configured if setting.name in typed}

    def keeps_secrets(self) -> bool:
        """Return whether the stored secrets are to stay, in a form of what is stored now."""
        row, version = self.row, self.cleaned_data.get("version")
        return row is not None and bool(row.secret_names) and version == row.version and self.secret_values() is None

    def secret_values(self) -> dict[str, str] | None:
        """Return the secrets as typed; None where the stored ones are to be kept, or there can be none."""
        return None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the command that saves it."""
        typed = self.cleaned_data
        more = [name for name in ("owner", "max_rate_per_second") if name in self.fields]
        return {
            "name": typed.get("name", ""),
            "kind": str(self.only_kind or typed["kind"]),
            "config": self.config(),
            "secrets": self.secret_values(),
        } | {name: typed.get(name) for name in more}

    def check(self) -> None:
        """Raise what the command would refuse; nothing can be said of an unknown kind."""
        if self.only_kind or "kind" in self.cleaned_data:
            self.check_arguments(**self.arguments())


def _default_of(setting: Setting) -> Any:
    return _EMPTY.get(setting.input, "") if setting.default is REQUIRED else setting.default
