"""Every destination beside the configuration of its kind: its name, its owner, and perhaps a limit of its rate."""

from collections.abc import Mapping
from typing import Any

from poisonadmin.core.domain import settings
from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS, validate_pattern
from poisonadmin.core.domain.settings import fraction

MAX_NAME_CHARS = 100


@settings.configuration
class DestinationSettings:
    """`owner`: the pattern of the addresses that it is kept for; None: as it is, `#` where it is new. `secrets` None:
    those that it has.
    """

    name: str = settings.name_of(MAX_NAME_CHARS, is_in_path=True)
    owner: str | None = settings.text("Owner", validate_pattern, default=None, most=MAX_ADDRESS_CHARS)
    kind: str = settings.other()
    config: Mapping[str, Any] = settings.other()
    secrets: Mapping[str, Any] | None = settings.other(default=None)
    max_rate_per_second: float | None = settings.decimal(
        "Deliveries per second", fraction(0.001, 100_000), default=None, hint="no limit"
    )
