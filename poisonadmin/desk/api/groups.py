"""Failure groups: what they are, what people say of them, and which of them are one."""

from collections.abc import Callable
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.groups.commands.group_annotations import annotate
from poisonadmin.groups.commands.merged_groups import MAX_MEMBERS, merge, split
from poisonadmin.groups.domain.annotations import MAX_NOTE_CHARS, MAX_TAGS, MAX_URL_CHARS
from poisonadmin.groups.queries.groups import ORDERINGS, GroupDetail, GroupRow, get_group, list_groups
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.web.api.contract import (
    PAGE,
    Identifier,
    Moment,
    Paged,
    ReasonInput,
    StrictSerializer,
    Text,
    boolean,
    contract,
    ordering,
    text,
)
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

GROUP = Shape("FailureGroup", GroupRow, leave_out=("revision",))
_ORDERING = ordering(
    ORDERINGS,
    "By undecided messages, messages, failures, failures in the last 24 hours, last failure (the default) or first.",
)
GROUP_DETAIL = Shape("FailureGroupDetail", GroupDetail, leave_out=("revision",))


class GroupChange(StrictSerializer):
    """The fields to change; a field that is left out stays. `null`, an empty text or an empty list empties a field."""

    owner = Text(required=False, allow_null=True, allow_blank=True, max_length=150, help_text="The name of an account.")
    note = Text(required=False, allow_null=True, allow_blank=True, max_length=MAX_NOTE_CHARS)
    ticket_url = Text(required=False, allow_null=True, allow_blank=True, max_length=MAX_URL_CHARS)
    tags = serializers.ListField(child=Text(), required=False, max_length=MAX_TAGS)
    snoozed_until = Moment(required=False, allow_null=True)


class GroupsInput(ReasonInput):
    """Which other groups, and why."""

    groups = serializers.ListField(child=Identifier(), min_length=1, max_length=MAX_MEMBERS)


class GroupList(ApiView):
    """`/groups/`."""

    @contract(
        Permission.READ,
        "failures",
        {200: Paged(GROUP)},
        query=(
            text("error", "Part of the title, class or cause, or of the message of the group's sample."),
            text("owner", "The name of the account that owns the group."),
            text("tag", "A tag of the group.", many=True),
            boolean("snoozed", "`true`: only groups that are snoozed now; otherwise they are left out."),
            _ORDERING,
            *PAGE,
        ),
    )
    def get(self) -> Response:
        """List failure groups, the latest failure first unless `ordering` says otherwise."""
        query = self.query
        given = {
            "failure": [query["error"] or ""],
            "group_owner": [query["owner"] or ""],
            "group_tag": query["tag"],
            "snoozed": ["true" if query["snoozed"] else "false"],
        }
        return self.listed(GROUP, list_groups, parse_filter(given), ordering=query["ordering"] or "-last_at")


class GroupOne(ApiView):
    """`/groups/{id}/`."""

    @contract(Permission.READ, "failures", {200: GROUP_DETAIL})
    def get(self, group_id: int) -> Response:
        """Show a failure group with its counts by state, its failures by hour and day, and what is merged into it."""
        return shown(GROUP_DETAIL, get_group(group_id, principal=self.principal))

    @contract(Permission.DECIDE, "failures", {200: GROUP_DETAIL}, body=GroupChange, decides=True)
    def patch(self, group_id: int) -> Response:
        """Change the owner, note, ticket link, tags or snooze of a failure group."""
        annotate(group_id, self.body, principal=self.principal, expected_revision=self.expected_version)
        return shown(GROUP_DETAIL, get_group(group_id, principal=self.reader))


class _GroupMove(ApiView):
    """Base of the endpoints that merge and split groups."""

    def moved(self, move: Callable[..., Any], group_id: int) -> Response:
        """Carry it out and return the group as it is now."""
        get_group(group_id, principal=self.reader)
        move(group_id, self.body["groups"], principal=self.principal, reason=self.body["reason"])
        return shown(GROUP_DETAIL, get_group(group_id, principal=self.reader))


class GroupMerge(_GroupMove):
    """`/groups/{id}/merge/`."""

    @contract(Permission.DECIDE, "failures", {200: GROUP_DETAIL}, body=GroupsInput, acts=True)
    def post(self, group_id: int) -> Response:
        """Merge other failure groups into this one, with the failures that they will get."""
        return self.moved(merge, group_id)


class GroupSplit(_GroupMove):
    """`/groups/{id}/split/`."""

    @contract(Permission.DECIDE, "failures", {200: GROUP_DETAIL}, body=GroupsInput, acts=True)
    def post(self, group_id: int) -> Response:
        """Split off groups that were merged into this one: each is a group of its own again."""
        return self.moved(split, group_id)


urlpatterns = [
    route("groups/", GroupList, name="api-groups"),
    route("groups/<id:group_id>/", GroupOne, name="api-group"),
    route("groups/<id:group_id>/merge/", GroupMerge, name="api-group-merge"),
    route("groups/<id:group_id>/split/", GroupSplit, name="api-group-split"),
]
