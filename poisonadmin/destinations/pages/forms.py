"""The forms of destinations: HTTP, a handler, a broker."""

from collections.abc import Mapping
from typing import Any

from django import forms

from poisonadmin.brokers.domain.broker_kinds import destination_settings
from poisonadmin.core.domain.addresses import ANY_WORDS, MAX_ADDRESS_CHARS, validate_pattern
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.destinations.commands import checked_destination
from poisonadmin.destinations.domain import handler_config, http_config
from poisonadmin.destinations.domain.destination import DestinationSettings
from poisonadmin.destinations.domain.http_config import CONNECTION_LOST, may_keep_secrets
from poisonadmin.destinations.queries import DestinationRow
from poisonadmin.store.models.destination import DestinationKind
from poisonadmin.web.pages.forms import (
    SecretLines,
    TextField,
    lines_of,
    texts_by_line,
    ticks,
)
from poisonadmin.web.pages.setting_fields import BrokerForm, ConfiguredForm

_HTTP = http_config.DEFAULTS


def _check(**arguments: Any) -> None:
    checked_destination(DestinationSettings(**arguments))


class OwnedForm(ConfiguredForm):
    """The fields of every destination."""

    object_type = "destination"
    check_arguments = staticmethod(_check)
    settings = settings_of(DestinationSettings, but=("owner",))
    owner = TextField(
        "Owner",
        read=validate_pattern,
        most=MAX_ADDRESS_CHARS,
        initial=ANY_WORDS,
        note="A pattern of addresses, such as orders.#. Users whose scope contains all of them may use and change the"
        " destination, and its consumers move messages to no other address.",
    )


def _headers(text: str) -> dict[str, str]:
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


def _lines(headers: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in headers.items())


class HttpForm(OwnedForm):
    """An HTTP destination. Its secret headers stay as they are where none are typed."""

    heading = "Add HTTP destination"
    lead = "Each message is sent as a request. It is delivered when the status of the answer is 2xx."
    layout = (
        ("Request", "name owner url method verify_tls"),
        ("Headers", "headers secrets forget_secrets copy_headers"),
        ("Limits", "timeout_ms concurrency max_rate_per_second"),
        ("Crashes", "crash_on"),
    )
    only_kind = DestinationKind.HTTP
    configured = http_config.HTTP
    headers = TextField(
        "Headers of each request, one a line",
        read=_headers,
        write=_lines,
        rows=3,
        hint="X-Tenant: shop",
        note="Readers may see them.",
    )
    secrets = TextField(
        "Secret headers, one a line",
        read=_headers,
        rows=3,
        hint="Authorization: Bearer …",
        note="They replace the stored ones, and are never shown again.",
        widget=SecretLines,
    )
    forget_secrets = ticks("Forget the stored secret headers")
    copy_headers = lines_of(
        "Headers of the message to copy, one a line",
        note="Names, or beginnings such as x-*. Empty: none.",
        initial=_HTTP["copy_headers"],
    )
    crash_on = ticks(
        "A lost connection counts as a crash of the consumer",
        note="Lost after the request and before its answer. The message is then delivered alone, and blacklisted when"
        " it happens again.",
    )

    def __init__(self, data: Mapping[str, Any] | None = None, row: DestinationRow | None = None) -> None:
        super().__init__(data, row)
        if row is not None and row.secret_names:
            self.fields["secrets"].widget.attrs["placeholder"] = f"unchanged: {', '.join(row.secret_names)}"
        else:
            del self.fields["forget_secrets"]

    def initial_of(self, row: DestinationRow) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        return super().initial_of(row) | {"crash_on": row.config.get("crash_on") == CONNECTION_LOST}

    def check(self) -> None:
        """Raise what the command would refuse; secrets that would go elsewhere are asked for where they are typed."""
        if self.keeps_secrets() and "url" in self.cleaned_data and not may_keep_secrets(self.row.config, self.config()):
            self.add_error("url", "The stored secret headers are not sent to another place.")
            self.add_error("secrets", "Type them again, or tick “Forget the stored secret headers”.")
        super().check()

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check. What is as the default says is left out."""
        typed = {"copy_headers": [], "url": None, **self.filled_in()}
        typed["crash_on"] = CONNECTION_LOST if typed["crash_on"] else None
        return {name: typed[name] for name in ("url", *_HTTP) if name in typed and typed[name] != _HTTP.get(name)}

    def secret_values(self) -> dict[str, str] | None:
        """Return the secret headers, None where the stored ones are to be kept."""
        return self.cleaned_data.get("secrets") or ({} if self.cleaned_data.get("forget_secrets") else None)


class HandlerForm(OwnedForm):
    """A handler."""

    heading = "Add handler"
    lead = "A Python function is called with each message, in a sandbox with limits of its own."
    layout = (("Handler", "name owner callable"),)
    rest = "Limits"
    only_kind = DestinationKind.HANDLER
    configured = handler_config.HANDLER


class BrokerDestinationForm(BrokerForm, OwnedForm):
    """A broker."""

    heading = "Add broker destination"
    lead = (
        "A message is delivered when the broker has confirmed it. Without a redirect it returns to the queue where it"
        " failed, else to the queue named as its address."
    )
    layout = (("Connection", f"owner {BrokerForm.connection}"), ("Redirect", "queue topic exchange routing_key"))
    rest = "Limits"
    kinds_of = destination_settings()
