"""Every route, as everybody: the table must name each one, or the test that reads the URL configuration fails."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.db import transaction
from django.urls import URLPattern, reverse

from poisonadmin.urls import API
from poisonadmin.web.api.contract import contract_of
from poisonadmin.web.pages.views import routes_of
from tests.fixtures.api import ROLES, Caller, caller_of

ANYONE = (200, 200, 200)
WHY = {"reason": "because"}
DIRECTORY = {"name": "other", "kind": "directory", "config": {"path": "/srv/other"}}
ALERTS = {"kinds": ["new_group"], "addresses": ["orders.#"], "to": ["https://hooks.example.org/in"]}
RULE = {"name": "no orders", "match": {"address": "orders.#"}, "action": {"do": "reject"}}
BROKER = {"kind": "rabbitmq", "config": {"url": "amqp://rabbit.example.org", "queues": ["orders.dlq"]}}
RESTART_JOB = {"schedule": "0 4 * * *", "action": "approve", "reason": "because"}
SAVED_REPORT = {"report": {"kind": "failures", "format": "csv"}, "days": 7}
HTTP = {"kind": "http", "config": {"url": "https://hooks.example.org/in"}}

# (route, method) -> path arguments (a name in `one_of_each`, or a text), body, and the status for viewer, operator,
# admin and outsider. The outsider is an administrator of other addresses: lists are empty, objects are not there.
Expectation = tuple[Mapping[str, str], Any, int, int, int, int]
EXPECTED: dict[tuple[str, str], Expectation] = {
    ("api-messages", "get"): ({}, None, 200, 200, 200, 200),
    ("api-messages", "post"): ({}, {"address": "orders.eu", "payload": "x"}, 403, 201, 201, 404),
    ("api-message-batch", "post"): ({}, b'{"address": "orders.eu", "payload": "x"}\n', 403, 202, 202, 422),
    ("api-message", "get"): ({"message_id": "waiting"}, None, 200, 200, 200, 404),
    ("api-message-attempts", "get"): ({"message_id": "undecided"}, None, 200, 200, 200, 404),
    ("api-message-history", "get"): ({"message_id": "waiting"}, None, 200, 200, 200, 404),
    ("api-message-hops", "get"): ({"message_id": "waiting"}, None, 200, 200, 200, 404),
    ("api-message-related", "get"): ({"message_id": "waiting"}, None, 200, 200, 200, 404),
    ("api-message-payload", "get"): ({"message_id": "waiting"}, None, 403, 200, 200, 404),
    ("api-message-reveal", "post"): ({"message_id": "waiting"}, WHY, 403, 200, 200, 404),
    ("api-masking-rules", "get"): ({}, None, 200, 200, 200, 200),
    ("api-masking-rules", "post"): ({}, {"match": "hidden.#", "json_path": "$.a"}, 403, 403, 201, 403),
    ("api-masking-rule", "get"): ({"masking_rule_id": "masking_rule"}, None, 200, 200, 200, 404),
    ("api-masking-rule", "put"): (
        {"masking_rule_id": "masking_rule"},
        {"match": "hidden.#", "key": "customer", "allowed_roles": ["admin"]},
        403,
        403,
        200,
        404,
    ),
    ("api-masking-rule", "delete"): ({"masking_rule_id": "masking_rule"}, None, 403, 403, 204, 404),
    ("api-message-schedule", "get"): ({"message_id": "waiting"}, None, 200, 200, 200, 404),
    ("api-message-transport", "get"): ({"message_id": "waiting"}, None, 200, 200, 200, 404),
    ("api-message-approve", "post"): ({"message_id": "undecided"}, WHY, 403, 200, 200, 404),
    ("api-message-fail", "post"): ({"message_id": "undecided"}, WHY, 403, 200, 200, 404),
    ("api-message-quarantine", "post"): ({"message_id": "waiting"}, WHY, 403, 200, 200, 404),
    ("api-message-restore", "post"): ({"message_id": "given_up"}, WHY, 403, 200, 200, 404),
    ("api-message-deliver-now", "post"): ({"message_id": "waiting"}, WHY, 403, 200, 200, 404),
    ("api-message-postpone", "post"): (
        {"message_id": "waiting"},
        {**WHY, "until": "2040-01-01T00:00:00Z"},
        403,
        200,
        200,
        404,
    ),
    ("api-message-return", "post"): ({"message_id": "moved"}, WHY, 403, 200, 200, 404),
    ("api-message-patch", "post"): ({"message_id": "undecided"}, {**WHY, "payload": "changed"}, 403, 200, 200, 404),
    ("api-message-release", "post"): ({"message_id": "listed"}, WHY, 403, 200, 200, 404),
    ("api-message-versions", "get"): ({"message_id": "undecided"}, None, 200, 200, 200, 404),
    ("api-message-version-payload", "get"): ({"message_id": "undecided", "number": 1}, None, 403, 200, 200, 404),
    ("api-message-redirect", "post"): (
        {"message_id": "moved"},
        {**WHY, "address": "orders.repaired"},
        403,
        200,
        200,
        404,
    ),
    ("api-message-assign", "post"): ({"message_id": "given_up"}, {**WHY, "tags": {"add": ["eu"]}}, 403, 200, 200, 404),
    ("api-message-confirm", "post"): ({"message_id": "delivered"}, {}, 403, 200, 200, 404),
    ("api-comparisons", "post"): ({}, {"selection": {"filter": {"state": "NDLV"}}}, 202, 202, 202, 400),
    ("api-comparison", "get"): ({"comparison_id": "comparison"}, None, 403, 200, 200, 404),
    ("api-comparison-cancel", "post"): ({"comparison_id": "comparison"}, None, 403, 200, 200, 404),
    ("api-selections", "post"): ({}, {"filter": {"state": "NDLV"}}, 201, 201, 201, 201),
    ("api-selection", "get"): ({"selection_id": "selection"}, None, 200, 200, 200, 404),
    ("api-selection-messages", "get"): ({"selection_id": "selection"}, None, 200, 200, 200, 404),
    ("api-selection-preview", "get"): ({"selection_id": "selection"}, None, 200, 200, 200, 404),
    ("api-selection-preview", "post"): ({"selection_id": "selection"}, {"action": "approve"}, 200, 200, 200, 404),
    ("api-operations", "get"): ({}, None, 200, 200, 200, 200),
    ("api-operations", "post"): (
        {},
        {"selection": {"filter": {"state": "NDLV"}}, "action": "approve", **WHY},
        403,
        202,
        202,
        202,
    ),
    ("api-operation", "get"): ({"operation_id": "operation"}, None, 200, 200, 200, 404),
    ("api-operation-members", "get"): ({"operation_id": "operation"}, None, 200, 200, 200, 404),
    ("api-operation-ledger", "get"): ({"operation_id": "operation"}, None, 403, 200, 200, 404),
    ("api-operation-pause", "post"): ({"operation_id": "operation"}, WHY, 403, 200, 200, 404),
    ("api-operation-resume", "post"): ({"operation_id": "operation"}, WHY, 403, 409, 409, 404),
    ("api-operation-cancel", "post"): ({"operation_id": "operation"}, WHY, 403, 200, 200, 404),
    ("api-views", "get"): ({}, None, 200, 200, 200, 200),
    ("api-views", "post"): ({}, {"name": "mine", "query": "state=NDLV"}, 201, 201, 201, 201),
    ("api-view", "get"): ({"view_id": "view"}, None, 200, 200, 200, 404),
    ("api-view", "delete"): ({"view_id": "view"}, None, 403, 403, 204, 404),
    ("api-searches", "post"): ({}, {"q": "payload:x"}, 403, 202, 202, 202),
    ("api-search", "get"): ({"search_id": "search"}, None, 403, 200, 200, 404),
    ("api-search-messages", "get"): ({"search_id": "search"}, None, 403, 200, 200, 404),
    ("api-search-cancel", "post"): ({"search_id": "search"}, None, 403, 403, 200, 404),
    # That which nobody has seen is signed off by nobody.
    ("api-operation-sign-offs", "post"): (
        {"operation_id": "waiting_operation"},
        WHY | {"hash": "x"},
        403,
        403,
        409,
        404,
    ),
    ("api-sign-off-rules", "get"): ({}, None, 200, 200, 200, 200),
    ("api-sign-off-rules", "post"): ({}, {"match": "orders.eu", "above": 500}, 403, 403, 201, 403),
    ("api-sign-off-rule", "get"): ({"sign_off_rule_id": "sign_off_rule"}, None, 200, 200, 200, 404),
    ("api-sign-off-rule", "put"): ({"sign_off_rule_id": "sign_off_rule"}, {"above": 5}, 403, 403, 200, 404),
    ("api-sign-off-rule", "delete"): ({"sign_off_rule_id": "sign_off_rule"}, None, 403, 403, 204, 404),
    ("api-archive", "get"): ({}, None, 200, 200, 200, 403),
    ("api-archive-one", "get"): ({"run_id": "archive_run"}, None, 200, 200, 200, 403),
    ("api-archive-run", "post"): ({}, {"dry_run": True}, 403, 403, 202, 403),
    ("api-archive-cancel", "post"): ({"run_id": "archive_run"}, None, 403, 403, 200, 403),
    ("api-archived-messages", "get"): ({}, None, 200, 200, 200, 200),
    # It is not archived.
    ("api-message-restore-from-archive", "post"): ({"message_id": "given_up"}, WHY, 403, 409, 409, 404),
    ("api-legal-holds", "get"): ({}, None, 403, 403, 200, 403),
    ("api-legal-holds", "post"): ({}, {"filter": {"address": "orders.#"}, **WHY}, 403, 403, 201, 403),
    ("api-legal-hold", "get"): ({"hold_id": "legal_hold"}, None, 403, 403, 200, 403),
    ("api-legal-hold-lift", "post"): ({"hold_id": "legal_hold"}, WHY, 403, 403, 200, 403),
    ("api-erasures", "get"): ({}, None, 403, 403, 200, 403),
    ("api-erasures", "post"): ({}, {"filter": {"message_id": "x"}, **WHY}, 403, 403, 202, 403),
    ("api-erasure", "get"): ({"erasure_id": "erasure"}, None, 403, 403, 200, 403),
    ("api-configuration", "get"): ({}, None, 403, 403, 200, 200),
    ("api-configuration", "post"): ({}, {"configuration": {}}, 403, 403, 200, 200),
    ("api-failures", "get"): ({}, None, 200, 200, 200, 200),
    ("api-groups", "get"): ({}, None, 200, 200, 200, 200),
    ("api-group-proposals", "get"): ({}, None, 200, 200, 200, 200),
    ("api-group-proposals", "post"): ({}, None, 403, 202, 202, 403),
    ("api-group-proposal", "get"): ({"proposal_id": "proposal"}, None, 200, 200, 200, 404),
    ("api-group-proposal-merge", "post"): ({"proposal_id": "proposal"}, {}, 403, 200, 200, 404),
    ("api-group-proposal-dismiss", "post"): ({"proposal_id": "proposal"}, None, 403, 200, 200, 404),
    # It is not dismissed.
    ("api-group-proposal-again", "post"): ({"proposal_id": "proposal"}, None, 403, 409, 409, 404),
    ("api-alike-search", "get"): ({"alike_search_id": "alike_search"}, None, 200, 200, 200, 200),
    ("api-alike-search-cancel", "post"): ({"alike_search_id": "alike_search"}, None, 403, 200, 200, 403),
    ("api-group", "get"): ({"group_id": "group"}, None, 200, 200, 200, 404),
    ("api-group-brief", "get"): ({"group_id": "group"}, None, 200, 200, 200, 404),
    ("api-group", "patch"): ({"group_id": "group"}, {"note": "known since the release"}, 403, 200, 200, 404),
    ("api-group-merge", "post"): ({"group_id": "group"}, {"groups": ["999999"], **WHY}, 403, 404, 404, 404),
    ("api-group-split", "post"): ({"group_id": "group"}, {"groups": ["999999"], **WHY}, 403, 404, 404, 404),
    ("api-stats", "get"): ({}, None, 200, 200, 200, 200),
    ("api-addresses", "get"): ({}, None, 200, 200, 200, 200),
    ("api-address", "get"): ({"name": "orders.eu"}, None, 200, 200, 200, 404),
    ("api-address-pause", "post"): ({"name": "orders.eu"}, WHY, 403, 200, 200, 404),
    ("api-address-resume", "post"): ({"name": "orders.eu"}, WHY, 403, 409, 409, 404),
    ("api-destinations", "get"): ({}, None, 200, 200, 200, 200),
    ("api-destinations", "post"): ({}, {"name": "new", **HTTP}, 403, 403, 201, 403),
    ("api-destination", "get"): ({"name": "shop"}, None, 200, 200, 200, 404),
    ("api-destination", "put"): ({"name": "shop"}, {**HTTP, "secrets": {}}, 403, 403, 200, 404),
    ("api-destination", "delete"): ({"name": "shop"}, None, 403, 403, 409, 404),
    ("api-destination-enable", "post"): ({"name": "shop"}, WHY, 403, 200, 200, 404),
    ("api-destination-disable", "post"): ({"name": "shop"}, WHY, 403, 200, 200, 404),
    ("api-policies", "get"): ({}, None, 200, 200, 200, 200),
    ("api-policies", "post"): ({}, {"match": "orders.us.#", "settings": {}}, 403, 403, 201, 403),
    ("api-policy-preview", "post"): ({}, {"settings": {}, "failures": 3}, 200, 200, 200, 200),
    ("api-policy-resolve", "get"): ({}, "?address=orders.eu", 200, 200, 200, 404),
    ("api-policy", "get"): ({"policy_id": "policy"}, None, 200, 200, 200, 404),
    ("api-policy-history", "get"): ({"policy_id": "policy"}, None, 200, 200, 200, 404),
    ("api-policy", "put"): ({"policy_id": "policy"}, {"match": "orders.#", "settings": {}}, 403, 403, 200, 404),
    ("api-policy", "delete"): ({"policy_id": "policy"}, None, 403, 403, 204, 404),
    ("api-reports", "get"): ({}, None, 403, 200, 200, 200),
    ("api-reports", "post"): ({}, {"kind": "failures"}, 403, 200, 200, 200),
    # For who has asked, and nobody else.
    ("api-report", "get"): ({"report_id": "report"}, None, 403, 404, 404, 404),
    ("api-report-download", "get"): ({"report_id": "report"}, None, 403, 404, 404, 404),
    ("api-report-cancel", "post"): ({"report_id": "report"}, None, 403, 404, 404, 404),
    ("api-saved-reports", "get"): ({}, None, 403, 200, 200, 200),
    ("api-saved-reports", "post"): ({}, SAVED_REPORT | {"name": "weekly"}, 403, 201, 201, 201),
    ("api-saved-report", "get"): ({"saved_report_id": "saved_report"}, None, 403, 200, 200, 404),
    ("api-saved-report", "put"): ({"saved_report_id": "saved_report"}, SAVED_REPORT, 403, 403, 403, 404),
    ("api-saved-report", "delete"): ({"saved_report_id": "saved_report"}, None, 403, 403, 204, 404),
    ("api-saved-report-run", "post"): ({"saved_report_id": "saved_report"}, None, 403, 202, 202, 404),
    ("api-restart-jobs", "get"): ({}, None, 200, 200, 200, 200),
    ("api-restart-jobs", "post"): ({}, RESTART_JOB | {"name": "nightly"}, 403, 403, 201, 403),
    ("api-restart-job", "get"): ({"restart_job_id": "restart_job"}, None, 200, 200, 200, 404),
    ("api-restart-job", "put"): ({"restart_job_id": "restart_job"}, RESTART_JOB, 403, 403, 200, 404),
    ("api-restart-job", "delete"): ({"restart_job_id": "restart_job"}, None, 403, 403, 204, 404),
    ("api-restart-job-preview", "post"): ({"restart_job_id": "restart_job"}, None, 403, 403, 201, 404),
    ("api-restart-job-run", "post"): ({"restart_job_id": "restart_job"}, {}, 403, 403, 202, 404),
    ("api-restart-job-runs", "get"): ({"restart_job_id": "restart_job"}, None, 200, 200, 200, 404),
    ("api-alerts", "get"): ({}, None, 200, 200, 200, 200),
    ("api-alert-rules", "get"): ({}, None, 200, 200, 200, 200),
    ("api-alert-rules", "post"): ({}, {"name": "new", "channel": "webhook", **ALERTS}, 403, 403, 201, 403),
    ("api-alert-rule", "get"): ({"alert_rule_id": "alert_rule"}, None, 200, 200, 200, 404),
    ("api-alert-rule", "put"): ({"alert_rule_id": "alert_rule"}, ALERTS, 403, 403, 200, 404),
    ("api-alert-rule", "delete"): ({"alert_rule_id": "alert_rule"}, None, 403, 403, 204, 404),
    ("api-alert-rule-test", "post"): ({"alert_rule_id": "alert_rule"}, None, 403, 403, 202, 404),
    ("api-alert-rule-secret", "post"): ({"alert_rule_id": "alert_rule"}, None, 403, 403, 200, 404),
    ("api-alert-delivery", "get"): ({"alert_delivery_id": "alert_delivery"}, None, 200, 200, 200, 404),
    ("api-alert-delivery-resend", "post"): ({"alert_delivery_id": "alert_delivery"}, None, 403, 403, 200, 404),
    ("api-rules", "get"): ({}, None, 200, 200, 200, 200),
    ("api-rules", "post"): ({}, RULE | {"stage": "before"}, 403, 403, 201, 403),
    ("api-rule", "get"): ({"rule_id": "rule"}, None, 200, 200, 200, 404),
    ("api-rule", "put"): ({"rule_id": "rule"}, RULE | {"action": {"do": "discard"}}, 403, 403, 200, 404),
    ("api-rule", "delete"): ({"rule_id": "rule"}, None, 403, 403, 204, 404),
    ("api-rule-move", "post"): ({"rule_id": "rule"}, {"position": 1}, 403, 403, 200, 404),
    ("api-rule-enable", "post"): ({"rule_id": "rule"}, WHY, 403, 403, 409, 404),
    ("api-rule-disable", "post"): ({"rule_id": "rule"}, WHY, 403, 403, 200, 404),
    ("api-rule-dry-run", "get"): ({"rule_id": "rule"}, None, 200, 200, 200, 404),
    ("api-rule-dry-run", "post"): ({"rule_id": "rule"}, None, 403, 403, 202, 404),
    ("api-sources", "get"): ({}, None, 200, 200, 200, 200),
    ("api-sources", "post"): ({}, DIRECTORY, 403, 403, 201, 403),
    ("api-batch-rejected", "get"): ({}, None, 403, 200, 200, 200),
    ("api-rejected-raw", "get"): ({"rejected_id": "rejected"}, None, 403, 200, 200, 404),
    ("api-source", "get"): ({"source_id": "source"}, None, 200, 200, 200, 404),
    ("api-source", "put"): ({"source_id": "broker"}, BROKER, 403, 403, 200, 404),
    ("api-source", "delete"): ({"source_id": "source"}, None, 403, 403, 204, 404),
    ("api-source-enable", "post"): ({"source_id": "source"}, WHY, 403, 200, 200, 404),
    ("api-source-disable", "post"): ({"source_id": "source"}, WHY, 403, 200, 200, 404),
    ("api-source-try", "post"): ({}, BROKER, 403, 403, 202, 403),
    ("api-source-test", "post"): ({"source_id": "broker"}, None, 403, 202, 202, 404),
    ("api-source-preview", "post"): ({"source_id": "broker"}, None, 403, 202, 202, 404),
    ("api-source-groups", "post"): ({"source_id": "broker"}, None, 403, 400, 400, 404),  # RabbitMQ
    ("api-source-queues", "post"): ({"source_id": "broker"}, None, 403, 202, 202, 404),
    # For who has asked, and nobody else.
    ("api-broker-check", "get"): ({"check_id": "check"}, None, 404, 404, 404, 404),
    ("api-source-files", "get"): ({"source_id": "source"}, None, 200, 200, 200, 404),
    ("api-source-ingest", "post"): ({"source_id": "source"}, None, 403, 202, 202, 404),
    ("api-source-rejected", "get"): ({"source_id": "source"}, None, 403, 200, 200, 404),
    ("api-jobs", "get"): ({}, None, 200, 200, 200, 200),
    ("api-job", "get"): ({"job_id": "job"}, None, 200, 200, 200, 404),
    ("api-nodes", "get"): ({}, None, 200, 200, 200, 200),
    ("api-read-only", "get"): ({}, None, 200, 200, 200, 200),
    ("api-read-only", "put"): ({}, WHY, 403, 403, 200, 403),
    ("api-read-only", "delete"): ({}, None, 403, 403, 200, 403),
    ("api-deployments", "get"): ({}, None, 200, 200, 200, 200),
    ("api-deployments", "post"): ({}, {"consumer": "orders.eu", "version": "2.5"}, 403, 201, 201, 404),
    ("api-heartbeat", "post"): ({"name": "billing-1"}, {"source": "orders.eu"}, 403, 204, 204, 404),
    ("api-poison-list", "get"): ({}, None, 200, 200, 200, 200),
    ("api-poison-list", "post"): ({}, {"source": "orders.eu", "bookmark": "7", "why": "x"}, 403, 200, 200, 404),
    ("api-poison-events", "get"): ({}, "?source=orders.eu", 403, 200, 200, 404),
    ("api-poison-release", "post"): ({"entry_id": "entry"}, WHY, 403, 200, 200, 404),
    ("api-audit", "get"): ({}, None, 200, 200, 200, 200),
    ("api-accounts", "get"): ({}, None, 403, 403, 200, 200),
    ("api-accounts", "post"): ({}, {"name": "new-one", "role": "viewer", "patterns": ["orders.#"]}, 403, 403, 201, 403),
    ("api-account", "get"): ({"name": "account"}, None, 403, 403, 200, 404),
    ("api-account", "patch"): ({"name": "account"}, {"role": "operator"}, 403, 403, 200, 404),
    ("api-account", "delete"): ({"name": "account"}, None, 403, 403, 204, 404),
    ("api-account-link", "post"): ({"name": "account"}, None, 403, 403, 201, 404),
    ("api-account-second-factors", "delete"): ({"name": "account"}, None, 403, 403, 204, 404),
    ("api-account-tokens", "get"): ({"name": "account"}, None, 403, 403, 200, 404),
    ("api-account-tokens", "post"): ({"name": "account"}, {"label": "t"}, 403, 403, 201, 404),
    ("api-account-token", "delete"): ({"name": "account", "token_id": "account_token"}, None, 403, 403, 204, 404),
    ("api-account-sessions", "get"): ({"name": "account"}, None, 403, 403, 200, 404),
    ("api-account-session", "delete"): ({"name": "account", "key": "account_session"}, None, 403, 403, 204, 404),
    ("api-me", "get"): ({}, None, 200, 200, 200, 200),
    ("api-schema", "get"): ({}, None, 200, 200, 200, 200),
}
PAGES_THAT_REDIRECT = {"api-docs"}
LISTS_THAT_ARE_EMPTY_OUTSIDE = [
    *("messages/", "failures/", "groups/", "groups/alike/", "addresses/", "destinations/", "policies/"),
    *(
        "sources/",
        "sources/rejected/",
        "jobs/",
        "nodes/",
        "poison-list/",
        "restart-jobs/",
        "sign-off-rules/",
        "reports/",
        "saved-reports/",
        "rules/",
        "audit/",
        "operations/",
        "views/",
        "alerts/",
        "alerts/rules/",
    ),
]


def api_routes() -> list[URLPattern]:
    """Return every route under /api/v1/."""
    return [route for part in API for route in routes_of(part)]


def routes() -> list[tuple[str, str]]:
    """Return (name, method) of every operation that the URL configuration has."""
    found = []
    for pattern in api_routes():
        view = getattr(pattern.callback, "cls", None)
        if view is not None:
            methods = [method for method in view.http_method_names if contract_of(view, method) and method != "head"]
            found += [(pattern.name or "", method) for method in methods]
    return found


def test_every_operation_has_an_expectation() -> None:
    assert sorted(routes()) == sorted(EXPECTED)


def test_every_view_is_an_operation_or_a_known_page() -> None:
    plain = {route.name for route in api_routes() if not hasattr(route.callback, "cls")}
    assert plain == {*PAGES_THAT_REDIRECT, None}


@pytest.mark.parametrize(("name", "method"), sorted(EXPECTED), ids=lambda part: part)
def test_an_operation_answers_each_role_as_expected(name: str, method: str, one_of_each: dict[str, Any]) -> None:
    arguments, body, *statuses = EXPECTED[(name, method)]
    path = reverse(name, kwargs={key: one_of_each.get(value, value) for key, value in arguments.items()})
    headers = {"Content_Type": "application/x-ndjson"} if isinstance(body, bytes) else {}
    if isinstance(body, str):
        path, body = path + body, None
    found = {}
    for role in [*ROLES, "anonymous"]:
        caller = Caller(None) if role == "anonymous" else caller_of(role)
        with transaction.atomic():
            answer = caller.ask(method.upper(), path, body, **headers)
            transaction.set_rollback(True)
        found[role] = answer.status_code
        if answer.status_code >= 400:
            assert answer["Content-Type"] == "application/problem+json"
    assert found == {**dict(zip(ROLES, statuses, strict=True)), "anonymous": 401}


@pytest.mark.parametrize("path", LISTS_THAT_ARE_EMPTY_OUTSIDE)
def test_an_outsider_sees_an_empty_list(path: str, one_of_each: dict[str, Any], outsider: Caller) -> None:
    assert outsider.get(path).json()["results"] == []


@pytest.mark.parametrize("path", ["messages/", "failures/", "groups/", "addresses/", "destinations/", "policies/"])
def test_a_viewer_sees_what_there_is(path: str, one_of_each: dict[str, Any], viewer: Caller) -> None:
    assert viewer.get(path).json()["results"]


def test_an_outsider_counts_nothing(one_of_each: dict[str, Any], outsider: Caller) -> None:
    found = outsider.get("stats/").json()
    assert set(found["by_state"].values()) == {0}
    assert (found["by_address"], found["by_group"], found["by_reason"]) == ({}, {}, {})


def test_an_outsider_s_batch_is_rejected_line_by_line(one_of_each: dict[str, Any], outsider: Caller) -> None:
    lines = b'{"address": "orders.eu", "payload": "x"}\n{"address": "elsewhere.x", "payload": "x"}\n'
    found = outsider.post("messages/batch/", lines, Content_Type="application/x-ndjson").json()
    assert (found["accepted"], found["rejected"][0]["code"]) == (1, "not_found")


def test_secrets_are_never_shown(one_of_each: dict[str, Any], admin: Caller) -> None:
    sources = ("sources/", f"sources/{one_of_each['broker']}/")
    for path in ("destinations/", "destinations/shop/", "audit/", "addresses/orders.eu/", *sources):
        assert b"planted-canary" not in admin.get(path).content
    assert admin.get(sources[1]).json()["secret_names"] == ["password", "username"]
    assert admin.get("destinations/shop/").json()["secret_names"] == ["Authorization"]


def test_a_user_without_a_role_may_do_nothing(client: Any, django_user_model: Any, db: None) -> None:
    client.force_login(django_user_model.objects.create(username="nobody"))
    answer = client.get("/api/v1/messages/")
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
