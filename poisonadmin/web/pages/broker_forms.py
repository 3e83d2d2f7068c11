"""What the forms of a source and of a destination at a broker share: name, place, login, and the declared settings."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from django import forms

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.sources.domain.broker_kinds import BROKERS, BrokerKind, note_of
from poisonadmin.sources.domain.broker_settings import InputKind, Setting
from poisonadmin.sources.domain.broker_urls import MAX_URL_CHARS
from poisonadmin.sources.domain.brokers import MAX_SECRET_CHARS
from poisonadmin.web.pages.forms import SecretInput, VersionedForm, asks, ticks, whole_number

_PLACES = " · ".join(f"{kind.words}: {kind.url_form}" for kind in BROKERS.values())


class Configured(Protocol):
    """What is stored of a source or a destination; of its login only the names."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def secret_names(self) -> Sequence[str]: ...
    @property
    def version(self) -> int: ...


class BrokerForm(VersionedForm):
    """Settings that are left empty have their defaults; an empty login stays as it is, unless `forget_login` is ticked.

    `row` is what the form changes: its name and its kind stay.
    """

    has_secrets = True
    name = forms.CharField(max_length=100, **asks("Name", needed=True))
    kind = forms.ChoiceField(label="Kind of broker", choices=[(kind.name, kind.words) for kind in BROKERS.values()])
    url = forms.CharField(
        max_length=MAX_URL_CHARS, **asks("URL", needed=True, hint=next(iter(BROKERS.values())).example, note=_PLACES)
    )
    username = forms.CharField(max_length=MAX_SECRET_CHARS, **asks("User", hint="none", widget=SecretInput))
    password = forms.CharField(
        max_length=MAX_SECRET_CHARS,
        strip=False,
        **asks("Password", hint="none", widget=forms.PasswordInput, autocomplete="new-password"),
    )
    forget_login = ticks("Forget the stored login")

    def __init__(
        self,
        data: Mapping[str, Any] | None,
        row: Configured | None,
        settings: Sequence[tuple[Setting, Sequence[BrokerKind]]],
    ) -> None:
        super().__init__(data, initial={} if row is None else self.initial_of(row))
        self.settings = settings
        for setting, kinds in settings:
            self.fields[setting.name] = _field(setting, kinds)
        if row is not None:
            self.fields["name"].disabled = self.fields["kind"].disabled = True
        if row is not None and row.secret_names:
            for name in ("username", "password"):
                self.fields[name].widget.attrs["placeholder"] = "unchanged"
        else:
            del self.fields["forget_login"]

    def initial_of(self, row: Configured) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        return {"name": row.name, "kind": row.kind, "version": row.version, **row.config}

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        filled_in = self.filled_in()
        kind = BROKERS[filled_in["kind"]]
        return {"url": self.cleaned_data["url"]} | {
            setting.name: filled_in[setting.name]
            for setting, kinds in self.settings
            if kind in kinds and setting.name in filled_in
            if setting.input != InputKind.SWITCH or filled_in[setting.name] != setting.default
        }

    def secret_values(self) -> dict[str, str] | None:
        """Return the login, None where the stored one is to be kept."""
        typed = {name: text for name in ("username", "password") if (text := self.cleaned_data[name])}
        return typed if typed or self.cleaned_data.get("forget_login") else None

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error; one about the login is shown at the user."""
        name = super().field_of(error)
        return "username" if name == "secrets" else name


def _field(setting: Setting, kinds: Sequence[BrokerKind]) -> forms.Field:
    asked: dict[str, Any] = {
        "label": setting.label,
        "note": note_of(setting, kinds),
        "hint": setting.hint or setting.default or "",
        "data-kinds": " ".join(kind.name for kind in kinds),
    }
    match setting.input:
        case InputKind.SWITCH:
            return ticks(setting.label, asked["note"], initial=setting.default)
        case InputKind.NUMBER:
            return whole_number(**asked)
        case InputKind.CHOICE:
            choices = [("", f"default ({setting.default})"), *((one, one) for one in setting.choices)]
            return forms.CharField(**asks(**asked | {"hint": ""}, choices=choices))
        case InputKind.TEXT:
            return forms.CharField(**asks(**asked))
