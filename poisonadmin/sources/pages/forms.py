"""The forms of sources: a broker that is drained, and a directory of files."""

from collections.abc import Mapping
from typing import Any

from django import forms

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.sources.commands.setup import MAX_PATH_CHARS
from poisonadmin.sources.domain.broker_kinds import BROKERS, source_settings
from poisonadmin.sources.queries.sources import SourceRow
from poisonadmin.store.models.intake import SourceKind
from poisonadmin.web.pages.broker_forms import BrokerForm, Configured
from poisonadmin.web.pages.forms import VersionedForm, asks, lines_of

_DRAINED = {kind.drained for kind in BROKERS.values()}


# What a worker can be asked of a broker, by the value of its button.
CHECKS = (("connection", "Test the connection"), ("preview", "Preview"), ("queues", "Find queues"))


class BrokerSourceForm(BrokerForm):
    """Queues of dead letters at a broker. All kinds share the field of what is drained."""

    heading = "Add broker"
    lead = (
        "Dead letters are taken in here, at the address where they failed, and acknowledged at the broker once they are"
        " stored."
    )
    layout = (
        ("Connection", ("name", "kind", "url", "username", "password", "verify_tls", "forget_login")),
        ("What is drained", ("queues", "address")),
    )
    rest = "Settings"
    checks = CHECKS
    queues = lines_of(
        "Queues or topics with dead letters, one a line",
        needed=True,
        hint="orders.dlq",
        note="What is stored here is acknowledged there.",
    )

    def __init__(self, data: Mapping[str, Any] | None = None, row: SourceRow | None = None) -> None:
        super().__init__(data, row, source_settings())

    def initial_of(self, row: Configured) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        drained = BROKERS[row.kind].drained if row.kind in BROKERS else ""
        return super().initial_of(row) | {"queues": row.config.get(drained)}

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        return super().config() | {BROKERS[self.cleaned_data["kind"]].drained: self.cleaned_data["queues"] or []}

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        name = super().field_of(error)
        return "queues" if name in _DRAINED else name


class DirectoryForm(VersionedForm):
    """A directory whose files are taken in."""

    heading = "Add directory"
    lead = "Files are taken in once they have not changed for two seconds. They are never changed, moved or deleted."
    name = forms.CharField(max_length=100, **asks("Name", needed=True))
    path = forms.CharField(
        max_length=MAX_PATH_CHARS,
        **asks(
            "Directory",
            needed=True,
            hint="/srv/dead-letters",
            note="An absolute path on the machine of the batch worker, and of every Spark executor.",
        ),
    )

    def __init__(self, data: Mapping[str, Any] | None = None, row: SourceRow | None = None) -> None:
        stored = {} if row is None else {"name": row.name, "version": row.version, **row.config}
        super().__init__(data, initial=stored)
        self.fields["name"].disabled = row is not None

    def clean(self) -> dict[str, Any]:
        """Add the kind, which no field asks for."""
        return {**self.cleaned_data, "kind": SourceKind.DIRECTORY}

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        return {"path": self.cleaned_data["path"]}

    def secret_values(self) -> None:
        """A directory has none."""
