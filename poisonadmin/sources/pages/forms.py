"""The forms of sources: a broker that is drained, and a directory of files."""

from typing import Any

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.sources.commands.setup import MAX_PATH_CHARS
from poisonadmin.sources.domain.broker_kinds import BROKERS, source_settings
from poisonadmin.sources.queries.sources import SourceRow
from poisonadmin.store.models.intake import SourceKind
from poisonadmin.web.pages.broker_forms import BrokerForm
from poisonadmin.web.pages.forms import StoredForm, TextField, lines_of

# What a worker can be asked of a broker, by the value of its button.
CHECKS = (("connection", "Test the connection"), ("preview", "Preview"), ("queues", "Find queues"))


class BrokerSourceForm(BrokerForm):
    """Queues of dead letters at a broker. All kinds share the field of what is drained."""

    heading = "Add broker"
    lead = (
        "Dead letters are taken in here, at the address where they failed, and acknowledged at the broker once they are"
        " stored."
    )
    layout = (("Connection", BrokerForm.connection), ("What is drained", "queues address"))
    rest = "Settings"
    checks = CHECKS
    settings = source_settings()
    queues = lines_of(
        "Queues or topics with dead letters, one a line",
        needed=True,
        hint="orders.dlq",
        note="What is stored here is acknowledged there.",
    )

    def initial_of(self, row: SourceRow) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        return super().initial_of(row) | {"queues": row.drained}

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        return super().config() | {BROKERS[self.cleaned_data["kind"]].drained: self.cleaned_data["queues"] or []}

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        name = super().field_of(error)
        return "queues" if name in {kind.drained for kind in BROKERS.values()} else name


class DirectoryForm(StoredForm):
    """A directory whose files are taken in."""

    heading = "Add directory"
    lead = "Files are taken in once they have not changed for two seconds. They are never changed, moved or deleted."
    name = TextField("Name", most=100, needed=True)
    path = TextField(
        "Directory",
        most=MAX_PATH_CHARS,
        needed=True,
        hint="/srv/dead-letters",
        note="An absolute path on the machine of the batch worker, and of every Spark executor,"
        " below a directory of POISONADMIN_SOURCE_ROOTS.",
    )

    def clean(self) -> dict[str, Any]:
        """Add the kind, which no field asks for."""
        return {**self.cleaned_data, "kind": str(SourceKind.DIRECTORY)}

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        return {"path": self.cleaned_data["path"]}

    def secret_values(self) -> None:
        """A directory has none."""
