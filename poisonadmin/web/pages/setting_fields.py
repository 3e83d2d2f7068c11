"""Fields and forms that are made of declared settings (`core/domain/settings.py`), also those of a broker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django import forms

from poisonadmin.brokers.domain.broker_kinds import BROKERS, BrokerKind, note_of
from poisonadmin.brokers.domain.broker_urls import MAX_URL_CHARS
from poisonadmin.brokers.domain.brokers import MAX_SECRET_CHARS, may_keep_login
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.settings import REQUIRED, InputKind, Setting
from poisonadmin.web.pages.forms import (
    PageForm,
    SecretInput,
    StoredForm,
    TextField,
    decimal_number,
    duration_field,
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
        case InputKind.DURATION:
            return duration_field(setting.label, initial=initial, **drawn)
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


_PLACES = " · ".join(f"{kind.words}: {kind.url_form}" for kind in BROKERS.values())
_EXAMPLE = next(iter(BROKERS.values())).example


class BrokerForm(ConfiguredForm):
    """`kinds_of`: the settings of the kinds, each with the kinds that have it. One that is left empty has its default.

    An empty login stays as it is stored, unless `forget_login` is ticked.
    """

    kinds_of: ClassVar[Sequence[tuple[Setting, Sequence[BrokerKind]]]] = ()
    connection = "name kind url username password verify_tls forget_login"
    keeps: ClassVar[tuple[str, ...]] = ("name", "kind")
    name = TextField("Name", most=100, needed=True)
    kind = forms.ChoiceField(label="Kind of broker", choices=[(kind.name, kind.words) for kind in BROKERS.values()])
    url = TextField("URL", most=MAX_URL_CHARS, needed=True, hint=_EXAMPLE, note=_PLACES)
    username = TextField("User", most=MAX_SECRET_CHARS, hint="none", widget=SecretInput)
    password = TextField("Password", most=MAX_SECRET_CHARS, strip=False, hint="none", widget=forms.PasswordInput)
    forget_login = ticks("Forget the stored login")

    def __init__(self, data: Mapping[str, Any] | None = None, row: Any = None) -> None:
        super().__init__(data, row)
        for setting, kinds in self.kinds_of:
            drawn = replace(setting, note=note_of(setting, kinds))
            of = {"data-kinds": " ".join(kind.name for kind in kinds)}
            self.fields[setting.name] = field_of(drawn, is_sparse=True, **of)
        self.fields["password"].widget.attrs["autocomplete"] = "new-password"
        if row is None or not row.secret_names:
            del self.fields["forget_login"]
            return
        for name in ("username", "password"):
            self.fields[name].widget.attrs["placeholder"] = "unchanged"

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        filled_in = self.filled_in()
        kind = BROKERS[filled_in["kind"]]
        return {"url": filled_in.get("url")} | {
            setting.name: filled_in[setting.name]
            for setting, kinds in self.kinds_of
            if kind in kinds and setting.name in filled_in
            if setting.input != InputKind.SWITCH or filled_in[setting.name] != setting.default
        }

    def secret_values(self) -> dict[str, str] | None:
        """Return the login, None where the stored one is to be kept."""
        typed = {name: text for name in ("username", "password") if (text := self.cleaned_data.get(name))}
        return typed if typed or self.cleaned_data.get("forget_login") else None

    def check(self) -> None:
        """Raise what the command would refuse; a login that would go elsewhere is asked for where it is typed."""
        is_read = {"kind", "url"} <= self.cleaned_data.keys()
        if self.keeps_secrets() and is_read and not may_keep_login(self.row.config, self.config()):
            self.add_error("url", "The stored login is not sent to another place, nor without a checked certificate.")
            for name in ("username", "password"):
                self.add_error(name, "Type it again, or tick “Forget the stored login”.")
        super().check()

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error; one about the login is shown at the user."""
        name = super().field_of(error)
        return "username" if name == "secrets" else name
