"""Previews of operations, as pages show them."""

from typing import Any

from django.urls import reverse

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.decisions.operations.queries.preview import TAKEN, LeftAlone, OperationPreview, Target, WaitsFor
from poisonadmin.decisions.queries import refusals
from poisonadmin.web.pages.views import href


def shown_preview(foreseen: OperationPreview, principal: Principal) -> dict[str, Any]:
    """Return what `operations/_preview.html` shows."""
    return {
        "preview": foreseen,
        "targets": [(one, *_mend_wait(one)) for one in foreseen.targets],
        "left_alone": [(one, *_mend(one, principal)) for one in foreseen.refused],
        "samples": foreseen.change.samples if foreseen.change else [],
        "warnings": [one.warning.sentence(one.count, total=foreseen.accepted) for one in foreseen.crashed],
    }


def _mend_wait(target: Target) -> tuple[str, str, str | None]:
    """Return why a target's messages would wait, what mends that, and the page for it, as far as the reader sees it."""
    if target.waits is None:
        return "", "", None
    if target.waits == WaitsFor.DESTINATION_DISABLED:
        page = href(reverse("destinations-one"), [("name", target.destination)]) if target.destination else None
        return "its destination is switched off", "Switch the destination on", page
    words = "the address is paused" if target.waits == WaitsFor.ADDRESS_PAUSED else "the address is stopped"
    return words, "Resume the address", href(reverse("addresses-one"), [("name", target.address)])


def _mend(refused: LeftAlone, principal: Principal) -> tuple[str, str | None]:
    """Return what would mend a refusal, and the page where the principal may do that."""
    may_configure = principal.may(Permission.CONFIGURE)
    if refused.code == refusals.NO_DESTINATION:
        new = href(reverse("policies-new"), [("match", refused.detail or "")])
        return f"Give {refused.detail} a destination", new if may_configure else None
    if refused.code == refusals.OVERSIZED:
        return f"Raise max_payload_bytes of {refused.detail}", reverse("policies") if may_configure else None
    if refused.code == refusals.LISTED:
        return f"Release it on {refused.detail} first", reverse("poison_list")
    if refused.code == TAKEN:
        return f"Operation #{refused.detail}", reverse("operations-one", args=[int(refused.detail or 0)])
    return "", None
