"""The forms of sources: a broker that is drained, and a directory of files."""

from collections.abc import Mapping
from typing import Any

from poisonadmin.brokers.domain.broker_kinds import BROKERS, source_settings
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.sources.commands.setup import MAX_PATH_CHARS, checked_source
from poisonadmin.sources.queries.sources import SourceRow
from poisonadmin.store.models.intake import SourceKind
from poisonadmin.web.pages.forms import TextField, lines_of
from poisonadmin.web.pages.setting_fields import BrokerForm, ConfiguredForm

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
    object_type = "source"
    check_arguments = staticmethod(checked_source)
    kinds_of = source_settings()
    queues = lines_of(
        "Queues or topics with dead letters, one a line",
        needed=True,
        hint="orders.dlq",
        note="A message is acknowledged at the broker once it is stored in PoisonAdmin.",
    )

    def initial_of(self, row: SourceRow) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        return super().initial_of(row) | {"queues": row.drained}

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        return super().config() | {BROKERS[self.cleaned_data["kind"]].drained: self.cleaned_data.get("queues") or []}

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        name = super().field_of(error)
        return "queues" if name in {kind.drained for kind in BROKERS.values()} else name


class BrokerCheckForm(BrokerSourceForm):
    """The form of a broker as it is sent for a check, which may need less of it than a source does."""

    def __init__(self, data: Mapping[str, Any], row: SourceRow | None) -> None:
        super().__init__(data, row)
        for name in ("name", "queues"):
            self.fields[name].required = False

    def check(self) -> None:
        """Leave it to the check itself."""


class DirectoryForm(ConfiguredForm):
    """A directory whose files are taken in."""

    object_type = "source"
    only_kind = SourceKind.DIRECTORY
    check_arguments = staticmethod(checked_source)

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

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        return {"path": self.cleaned_data.get("path")}
