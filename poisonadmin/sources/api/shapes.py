"""What sources, broker checks, files and rejected lines look like in JSON."""

from poisonadmin.sources.queries.broker_checks import BrokerCheckRow, BrokerCheckState
from poisonadmin.sources.queries.sources import FileRow, RejectedRow, SourceRow
from poisonadmin.store.models.broker_look import LookPurpose
from poisonadmin.store.models.intake import SOURCE_KINDS, FileState
from poisonadmin.web.api.shape import Shape

SOURCE = Shape("Source", SourceRow, kinds={"kind": SOURCE_KINDS})


BROKER_CHECK = Shape(
    "BrokerLook", BrokerCheckRow, kinds={"purpose": LookPurpose, "kind": SOURCE_KINDS, "state": BrokerCheckState}
)


SOURCE_FILE = Shape("SourceFile", FileRow, kinds={"state": FileState})


REJECTED = Shape("RejectedLine", RejectedRow, leave_out={"raw_start"}, also={"raw_text": str})
