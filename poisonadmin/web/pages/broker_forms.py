"""The fields that forms of sources and destinations at a broker share: name, place, login, declared settings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django import forms

from poisonadmin.brokers.domain.broker_kinds import BROKERS, BrokerKind, note_of
from poisonadmin.brokers.domain.broker_urls import MAX_URL_CHARS
from poisonadmin.brokers.domain.brokers import MAX_SECRET_CHARS, may_keep_login
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.settings import InputKind, Setting
from poisonadmin.web.pages.forms import SecretInput, TextField, ticks
from poisonadmin.web.pages.setting_fields import ConfiguredForm, field_of

_PLACES = " · ".join(f"{kind.words}: {kind.url_form}" for kind in BROKERS.values())
_EXAMPLE = next(iter(BROKERS.values())).example


class BrokerForm(ConfiguredForm):
    """`kinds_of`: the settings of the kinds, each with the kinds that have it. One that is left empty has its default.

    An empty login stays as it is stored, unless `forget_login` is ticked.
    """

    kinds_of: ClassVar[Sequence[tuple[Setting, Sequence[BrokerKind]]]] = ()
    connection = "name kind url username password verify_tls forget_login"
    keeps = ("name", "kind")
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
