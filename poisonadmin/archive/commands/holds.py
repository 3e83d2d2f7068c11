"""Legal holds: what matches one is neither archived nor erased until it is lifted."""

from collections.abc import Mapping, Sequence

from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.domain.masking import Masked
from poisonadmin.core.queries.sql import Sql
from poisonadmin.search.domain.filters import MessageFilter, fields_of, parse_filter, require_values
from poisonadmin.search.domain.words import SPAN_FIELDS
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.search.queries.meanings import not_searched
from poisonadmin.store.models.archive import LegalHold

Filter = Mapping[str, Sequence[str] | str]


class NothingNamed(PoisonAdminError):
    """Raised when a filter that must name messages is empty."""

    code = "empty_filter"

    def __init__(self) -> None:
        super().__init__("The filter names nothing; say which messages, for example by an address or a business key.")


class HoldNotApplied(PoisonAdminError):
    """Raised when nobody can say what a legal hold matches: nothing is archived or erased beside it."""

    def __init__(self, hold_id: int, why: str) -> None:
        super().__init__(f"The legal hold {hold_id} cannot be applied, so nothing moves until it is lifted: {why}")


class HoldLifted(PoisonAdminError):
    """Raised when a legal hold was lifted before."""

    code = "hold_lifted"
    status = 409

    def __init__(self) -> None:
        super().__init__("This legal hold was lifted before.")


def require_archivist(principal: Principal) -> None:
    """Do nothing for who may configure and sees every address; raise NotAllowed."""
    principal.require(Permission.CONFIGURE)
    if not principal.sees_everything:
        raise NotAllowed("The archive is about all addresses; this account is limited to some.")


def checked_filter(given: Filter, principal: Principal) -> dict[str, list[str]]:
    """Return a filter's parameters as lists, if a list can be narrowed so.

    Errors: `InvalidFilter`, `NothingNamed`, `Masked` where it asks for what is masked for the principal.
    """
    texts = {name: [values] if isinstance(values, str) else list(values) for name, values in given.items()}
    require_values(texts)
    asked = parse_filter(texts)
    if not asked.terms:
        raise NothingNamed
    if patterns := not_searched(asked, principal):
        raise Masked(f"What this filter asks for is masked for {principal.name} at {', '.join(patterns)}.")
    compile_filter(asked, SYSTEM)
    return texts


def hold(given: Filter, *, reason: str, principal: Principal) -> LegalHold:
    """Keep what matches from now on. Errors: `NotAllowed`, `InvalidFilter`, `NothingNamed`, `Masked`."""
    require_archivist(principal)
    texts = checked_filter(given, principal)
    if any(term.field in SPAN_FIELDS for term in parse_filter(texts).terms):
        raise InvalidFilter("q", "A legal hold takes times, such as `received_after`; a span would run out.")
    with transaction.atomic():
        made = LegalHold.objects.create(filter=texts, reason=reason, created_by=principal.name)
        audit.record(
            principal.name,
            "legal_hold.created",
            "legal_hold",
            str(made.id),
            note=reason,
            details={"filter": fields_of(texts)},
        )
    made.refresh_from_db()
    return made


def lift(hold_id: int, *, reason: str, principal: Principal) -> LegalHold:
    """Keep it no more. Errors: `NotAllowed`, `NotFound`, `HoldLifted`."""
    require_archivist(principal)
    with transaction.atomic():
        found = LegalHold.objects.select_for_update().filter(id=hold_id).first()
        if found is None:
            raise NotFound(f"There is no legal hold {hold_id}.")
        if found.lifted_at is not None:
            raise HoldLifted
        LegalHold.objects.filter(id=hold_id).update(lifted_at=Now(), lifted_by=principal.name, lift_reason=reason)
        audit.record(principal.name, "legal_hold.lifted", "legal_hold", str(hold_id), note=reason)
    found.refresh_from_db()
    return found


def filters_in_force() -> dict[int, MessageFilter]:
    """Return what the legal holds in force name, by hold. Errors: `HoldNotApplied`."""
    found = {}
    for one in LegalHold.objects.filter(lifted_at=None).order_by("id"):
        try:
            found[one.id] = parse_filter(one.filter)
            compile_filter(found[one.id], SYSTEM)
        except PoisonAdminError as error:
            raise HoldNotApplied(one.id, error.detail) from error
    return found


def note_held(after: int, until: int) -> list[int]:
    """Write down which messages of a piece are held now, and return the ids of the holds that were asked.

    Call it in the transaction that also plans what is done with the others. Errors: `HoldNotApplied`.
    """
    holds = filters_in_force()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM held_message WHERE message_id > %s AND message_id <= %s", [after, until])
        for asked in holds.values():
            held = Sql(
                """INSERT INTO held_message (message_id) SELECT m.id FROM message m
                WHERE m.id > {after} AND m.id <= {until} AND {held} ON CONFLICT DO NOTHING""",
                after=after,
                until=until,
                held=compile_filter(asked, SYSTEM).whole,
            )
            cursor.execute(*held)
    return list(holds)
