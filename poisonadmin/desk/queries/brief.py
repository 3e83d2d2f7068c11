"""The findings on a failure group, and its incident brief as Markdown: what somebody needs who has not seen it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.core.queries.scope import destinations_seen
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.operations.queries.operations import OperationDetail, get_operation
from poisonadmin.deployments.queries import DeploymentRow
from poisonadmin.desk.queries.deployed import group_consumers, group_deployments
from poisonadmin.groups.domain.causes import Cause, RecentFailure, SharedValue, causes, in_common
from poisonadmin.groups.queries.groups import GroupDetail, get_group
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages

MARKDOWN = "text/markdown"
READ_MESSAGES = 200
SHOWN_OPERATIONS = 5
SHOWN_MESSAGES = 5


@dataclass(frozen=True)
class GroupFindings:
    """`recent`: the latest failures of its newest messages, the latest first. `tried`: the latest operations on these,
    with their ledgers. `payload_bytes`: of each of its newest messages, by id."""

    recent: list[RecentFailure]
    causes: list[Cause]
    shared: list[SharedValue]
    tried: list[OperationDetail]
    deployed: list[DeploymentRow]
    payload_bytes: dict[int, int]


def findings(group: GroupDetail, deployed: list[DeploymentRow], *, principal: Principal) -> GroupFindings:
    """Return what the rules and the newest 200 messages of a group say about it, in the reader's scope.

    `deployed`: the deployments of its consumers, oldest first. Errors: `QueryTooExpensive`.
    """
    newest = list_messages(parse_filter({"group": [str(group.id)]}), principal=principal, limit=READ_MESSAGES).results
    sizes = {one.id: one.payload_bytes for one in newest}
    ids = list(sizes)
    latest = Sql(
        """SELECT t.message_id, t.finished_at, a.name AS address, CASE WHEN {seen} THEN d.name END AS destination,
            t.outcome, t.error_class, t.status_code, t.consumer_version, m.state = 'DLVD' AND NOT EXISTS (
                SELECT FROM history AS h
                WHERE h.message_id = m.id AND h.from_state = 'NDLV' AND h.at >= t.finished_at) AS is_delivered,
            o.name AS original_address
            FROM message m JOIN address a ON a.id = m.address_id
            LEFT JOIN address o ON o.id = m.original_address_id CROSS JOIN LATERAL (
                SELECT * FROM attempt WHERE message_id = m.id AND outcome <> 'delivered' AND fingerprint = ANY({prints})
                ORDER BY attempt_number DESC LIMIT 1) t LEFT JOIN destination d ON d.id = t.destination_id
            WHERE m.id = ANY({ids}) ORDER BY t.finished_at DESC, m.id DESC""",
        seen=destinations_seen(principal, "d.id"),
        prints=[member.fingerprint for member in group.members],
        ids=ids,
    )
    with bounded():
        recent = fetch(RecentFailure, latest)
    before = [one.version for one in deployed if one.at <= group.first_at]
    began_with = before[-1] if before and {before[-1]} == {one.consumer_version for one in group.versions} else None
    tried = Sql(
        """SELECT DISTINCT operation_id FROM history WHERE message_id = ANY({ids}) AND operation_id IS NOT NULL
        ORDER BY 1 DESC LIMIT {most}""",
        ids=ids,
        most=SHOWN_OPERATIONS,
    )
    seen = [one for found in fetch_values(tried) if (one := _operation(found, principal))]
    return GroupFindings(recent, causes(recent, began_with=began_with), in_common(recent), seen, deployed, sizes)


def _operation(operation_id: int, principal: Principal) -> OperationDetail | None:
    """Return the operation; None where it has members out of the reader's scope."""
    try:
        return get_operation(operation_id, principal=principal)
    except NotFound:
        return None


def group_brief(group_id: int, *, principal: Principal, base: str, now: datetime) -> str:
    """Return the brief, which quotes no payload. `base`: the URL before the paths of the pages. Errors: `NotFound`."""
    group = get_group(group_id, principal=principal)
    found = findings(group, group_deployments(group, principal=principal, now=now).rows, principal=principal)
    return "\n".join([*_lines(group, found, principal, base), ""])


def _lines(group: GroupDetail, found: GroupFindings, principal: Principal, base: str) -> Iterator[str]:
    def link(route: str, number: int, words: str) -> str:
        return f"[{words}]({base}{reverse(route, args=[number])})"

    states = ", ".join(f"{n:,} {state}" for state, n in group.counts.items() if n)
    places = ", ".join(group_consumers([one.id for one in group.members], principal))
    yield f"# {_text(group.title)}\n"
    yield f"- **What**: {_text(group.error_class)}"
    for cause in found.causes:
        some = ", ".join(link("messages-one", one, f"#{one}") for one in cause.message_ids[:SHOWN_MESSAGES])
        yield f"- **Likely cause** ({cause.kind}): {_text(cause.sentence)} {cause.evidence}: {some}"
    yield f"- **Since**: {_at(group.first_at)}, last {_at(group.last_at)}"
    failures = "1 failure" if group.failures == 1 else f"{group.failures:,} failures"
    yield f"- **How many**: {failures}, {sum(group.trend):,} in 24 hours; messages: {states or 'none'}"
    yield f"- **Whose**: {_text(group.owner or 'nobody')}"
    yield f"- **Where**: {_text(places) or 'nowhere in the last weeks'}"
    for version in group.versions:
        times = f"{_at(version.first_at)} to {_at(version.last_at)}"
        yield f"- **Version** {_text(version.consumer_version)}: {version.failures:,} failures, {times}"
    for deployment in found.deployed:
        yield f"- **Deployed**: {_text(deployment.words)}, {_at(deployment.at)}"
    for one in found.shared:
        yield f"- **In common**: {one.name} {_text(one.value)}, {one.count:,} of {len(found.recent):,}"
    for operation in found.tried:
        ledger = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in vars(operation.ledger).items() if n)
        name = link("operations-one", operation.id, f"{operation.action} #{operation.id}")
        by = f"{_text(operation.requested_by)}: {_text(operation.reason)}"
        yield f"- **Tried**: {name}, {operation.state}, by {by}. Ledger: {ledger}"
    if group.regressed_at is not None:
        yield f"- **Regressed**: on {_text(group.regressed_version or '')}, {_at(group.regressed_at)}"
    if group.note:
        yield f"- **Note**: {_text(group.note)}"
    yield f"- **Links**: {link('groups-one', group.id, f'failure group {group.id}')}" + (
        f", <{group.ticket_url}>" if group.ticket_url else ""
    )


def _at(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"


def _text(text: str) -> str:
    """Return a stranger's text in one line, as Markdown shows it.

    >>> print(_text("<b> *x*"))
    \\<b\\> \\*x\\*
    """
    shown = "".join(one if one.isprintable() else " " for one in text)
    return "".join(f"\\{one}" if one in "\\`*_[]<>#|!~&" else one for one in " ".join(shown.split()))[:500]
