"""Fields for what an action is told besides which messages it is for (operations/domain/params.py)."""

from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS, validate_address
from poisonadmin.web.pages.forms import TextField

PARAM_FIELDS = ("address",)
PARAM_WORDS = {"address": "To the address"}


def address_field() -> TextField:
    """Return the field for the address that messages are redirected to."""
    return TextField(
        "Deliver to the address",
        read=validate_address,
        most=MAX_ADDRESS_CHARS,
        required=True,
        hint="orders.repaired",
        note="It has to deliver somewhere. Its policy applies from now on.",
    )
