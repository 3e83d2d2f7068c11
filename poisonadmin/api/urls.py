"""Routes of the API, under /api/v1/."""

from django.urls import path, re_path, register_converter

from poisonadmin.api import (
    activity,
    addresses,
    confirmations,
    decisions,
    destinations,
    docs,
    failures,
    message_parts,
    messages,
    poison_events,
    poison_list,
    policies,
    restart_jobs,
    rules,
    source_looks,
    sources,
)
from poisonadmin.queries.paging import MAX_ID


class IdConverter:
    """A database id in a path."""

    regex = "[0-9]{1,19}"

    def to_python(self, text: str) -> int:
        """Return the number; raise ValueError (no such page) beyond what the database can hold."""
        if (number := int(text)) > MAX_ID:
            raise ValueError(text)
        return number

    def to_url(self, number: int) -> str:
        """Return the digits."""
        return str(number)


register_converter(IdConverter, "id")

urlpatterns = [
    path("messages/", messages.MessageList.as_view(), name="api-messages"),
    path("messages/batch/", messages.MessageBatch.as_view(), name="api-message-batch"),
    path("messages/<id:message_id>/", messages.MessageOne.as_view(), name="api-message"),
    path("messages/<id:message_id>/attempts/", message_parts.MessageAttempts.as_view(), name="api-message-attempts"),
    path("messages/<id:message_id>/history/", message_parts.MessageHistory.as_view(), name="api-message-history"),
    path("messages/<id:message_id>/hops/", message_parts.MessageHops.as_view(), name="api-message-hops"),
    path("messages/<id:message_id>/payload/", message_parts.MessagePayload.as_view(), name="api-message-payload"),
    path("messages/<id:message_id>/schedule/", message_parts.MessageSchedule.as_view(), name="api-message-schedule"),
    path("messages/<id:message_id>/transport/", message_parts.MessageTransport.as_view(), name="api-message-transport"),
    path("messages/<id:message_id>/approve/", decisions.MessageApprove.as_view(), name="api-message-approve"),
    path("messages/<id:message_id>/fail/", decisions.MessageFail.as_view(), name="api-message-fail"),
    path("messages/<id:message_id>/quarantine/", decisions.MessageQuarantine.as_view(), name="api-message-quarantine"),
    path("messages/<id:message_id>/restore/", decisions.MessageRestore.as_view(), name="api-message-restore"),
    path(
        "messages/<id:message_id>/deliver_now/", decisions.MessageDeliverNow.as_view(), name="api-message-deliver-now"
    ),
    path("messages/<id:message_id>/postpone/", decisions.MessagePostpone.as_view(), name="api-message-postpone"),
    path("messages/<id:message_id>/return/", decisions.MessageReturn.as_view(), name="api-message-return"),
    path("messages/<id:message_id>/confirm/", confirmations.MessageConfirm.as_view(), name="api-message-confirm"),
    path("failures/", failures.FailureList.as_view(), name="api-failures"),
    path("groups/", failures.GroupList.as_view(), name="api-groups"),
    path("groups/<id:group_id>/", failures.GroupOne.as_view(), name="api-group"),
    path("stats/", failures.Stats.as_view(), name="api-stats"),
    path("addresses/", addresses.AddressList.as_view(), name="api-addresses"),
    # An address may hold slashes; one that ends in /pause is reached by the list only.
    path("addresses/<path:name>/pause/", addresses.AddressPause.as_view(), name="api-address-pause"),
    path("addresses/<path:name>/resume/", addresses.AddressResume.as_view(), name="api-address-resume"),
    path("addresses/<path:name>/", addresses.AddressOne.as_view(), name="api-address"),
    path("destinations/", destinations.DestinationList.as_view(), name="api-destinations"),
    path("destinations/<path:name>/enable/", destinations.DestinationEnable.as_view(), name="api-destination-enable"),
    path(
        "destinations/<path:name>/disable/", destinations.DestinationDisable.as_view(), name="api-destination-disable"
    ),
    path("destinations/<path:name>/", destinations.DestinationOne.as_view(), name="api-destination"),
    path("policies/", policies.PolicyList.as_view(), name="api-policies"),
    path("policies/preview/", policies.PolicyPreview.as_view(), name="api-policy-preview"),
    path("policies/resolve/", policies.PolicyResolve.as_view(), name="api-policy-resolve"),
    path("policies/<id:policy_id>/", policies.PolicyOne.as_view(), name="api-policy"),
    path("policies/<id:policy_id>/history/", policies.PolicyHistory.as_view(), name="api-policy-history"),
    path("rules/", rules.RuleList.as_view(), name="api-rules"),
    path("rules/<id:rule_id>/", rules.RuleOne.as_view(), name="api-rule"),
    path("rules/<id:rule_id>/move/", rules.RuleMove.as_view(), name="api-rule-move"),
    path("rules/<id:rule_id>/enable/", rules.RuleEnable.as_view(), name="api-rule-enable"),
    path("rules/<id:rule_id>/disable/", rules.RuleDisable.as_view(), name="api-rule-disable"),
    path("rules/<id:rule_id>/dry_run/", rules.RuleDryRun.as_view(), name="api-rule-dry-run"),
    path("restart-jobs/", restart_jobs.RestartJobList.as_view(), name="api-restart-jobs"),
    path("restart-jobs/<id:restart_job_id>/", restart_jobs.RestartJobOne.as_view(), name="api-restart-job"),
    path("restart-jobs/<id:restart_job_id>/run/", restart_jobs.RestartJobRun.as_view(), name="api-restart-job-run"),
    path("sources/", sources.SourceList.as_view(), name="api-sources"),
    path("sources/rejected/", sources.BatchRejected.as_view(), name="api-batch-rejected"),
    path("sources/rejected/<id:rejected_id>/raw/", sources.RejectedRaw.as_view(), name="api-rejected-raw"),
    path("sources/test/", source_looks.SourceTest.as_view(), name="api-source-try"),
    path("sources/looks/<id:look_id>/", source_looks.LookOne.as_view(), name="api-look"),
    path("sources/<id:source_id>/", sources.SourceOne.as_view(), name="api-source"),
    path("sources/<id:source_id>/files/", sources.SourceFiles.as_view(), name="api-source-files"),
    path("sources/<id:source_id>/ingest/", sources.SourceIngest.as_view(), name="api-source-ingest"),
    path("sources/<id:source_id>/enable/", sources.SourceEnable.as_view(), name="api-source-enable"),
    path("sources/<id:source_id>/disable/", sources.SourceDisable.as_view(), name="api-source-disable"),
    path("sources/<id:source_id>/test/", source_looks.SourceConnection.as_view(), name="api-source-test"),
    path("sources/<id:source_id>/preview/", source_looks.SourcePreview.as_view(), name="api-source-preview"),
    path("sources/<id:source_id>/queues/", source_looks.SourceQueues.as_view(), name="api-source-queues"),
    path("sources/<id:source_id>/rejected/", sources.SourceRejected.as_view(), name="api-source-rejected"),
    path("jobs/", activity.JobList.as_view(), name="api-jobs"),
    path("jobs/<id:job_id>/", activity.JobOne.as_view(), name="api-job"),
    path("nodes/", activity.NodeList.as_view(), name="api-nodes"),
    path("nodes/<path:name>/heartbeat/", poison_list.ConsumerHeartbeat.as_view(), name="api-heartbeat"),
    path("poison-list/", poison_list.PoisonList.as_view(), name="api-poison-list"),
    path("poison-list/events/", poison_events.PoisonEvents.as_view(), name="api-poison-events"),
    path("poison-list/<id:entry_id>/release/", poison_list.PoisonEntryRelease.as_view(), name="api-poison-release"),
    path("audit/", activity.AuditList.as_view(), name="api-audit"),
    path("schema/", docs.Schema.as_view(), name="api-schema"),
    path("docs/", docs.docs_page, name="api-docs"),
    # Also for a forgotten slash at the end: a redirect would turn a POST into a GET.
    re_path("", docs.nothing_here),
]
