"""A database of before: jobs, dry runs of rules, comparisons, searches of both kinds, broker checks and reports are
runs, under the ids that they had; what people said of messages and groups is in one table."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.system.test_former_migrations import FORMER, made, migrate

__all__ = ["made"]
ROWS = """
INSERT INTO job (id, kind, state, params, counts, requested_by, finished_at, worker) OVERRIDING SYSTEM VALUE VALUES
    (1, 'redeliver', 'succeeded', '{"claim": 1}', '{"claimed": 3}', 'system', '2026-01-01Z', 'spark'),
    (2, 'ingest', 'succeeded', '{"source": "inbox"}', '{}', 'system', '2026-01-01Z', 'spark-batch'),
    (3, 'compare', 'cancelled', '{"comparison": 7}', '{}', 'kim', '2026-01-01Z', 'spark-batch'),
    (4, 'compare', 'succeeded', '{"comparison": 7}', '{"compared": 12}', 'kim', '2026-01-02Z', 'spark-batch'),
    (5, 'dry_run', 'running', '{"rule_id": 9}', '{}', 'kim', NULL, 'spark-batch'),
    (6, 'alike_groups', 'succeeded', '{"alike_search": 2}', '{"groups": 3}', 'kim', '2026-01-02Z', 'spark-batch');
INSERT INTO comparison (id, state, selection_id, against, is_against_delivered, with_payload, account, requested_by,
                        patterns, address_ids, tries, failing_count, others_count, failing, others, fields, tested,
                        findings, job_id, requested_at, finished_at, expires_at) OVERRIDING SYSTEM VALUE VALUES
    (7, 'done', 70, '{"state": ["DLVD"]}', TRUE, TRUE, 'user 1', 'kim', '[["orders.#"]]', '{1,2}', 2, 10, 40, 5, 7, 3,
     30, '[{"conditions": []}]', 4, '2026-01-01Z', '2026-01-02Z', '2199-01-01Z'),
    (900, 'running', 71, NULL, TRUE, FALSE, 'user 1', 'kim', '[]', '{1}', 1, NULL, NULL, NULL, NULL, NULL, NULL, '[]',
     NULL, '2026-01-03Z', NULL, '2199-01-01Z');
INSERT INTO dry_run (rule_id, rule_version, job_id, cut_off, read, matched, report, requested_by, finished_at, error)
VALUES (9, 2, 5, 100, 60, 30, '{"after": 60, "found": [{"matched": 30}]}', 'kim', NULL, NULL),
       (8, 1, NULL, 50, 0, 0, '{}', 'kim', '2026-01-01Z', 'it was changed');
INSERT INTO alike_search (id, state, requested_by, requested_at, phase, tries, job_id, groups, left_out, proposals,
                          groups_digest, error, finished_at) OVERRIDING SYSTEM VALUE VALUES
    (2, 'done', 'kim', '2026-01-01Z', NULL, 1, 6, 3, 4, 1, 'd1', NULL, '2026-01-02Z'),
    (950, 'running', 'system', '2026-01-03Z', 'comparing', 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (951, 'failed', 'kim', '2026-01-04Z', NULL, 1, NULL, NULL, NULL, NULL, NULL, 'no space', '2026-01-05Z');
SELECT setval('job_id_seq', 6);
"""


@pytest.mark.usefixtures("services")
def test_what_there_was_is_still_there(made: Callable[[str], str]) -> None:
    url = made(FORMER + ROWS)
    assert migrate(url).returncode == 0
    with psycopg.connect(url, row_factory=dict_row) as session:
        rows: list[dict[str, Any]] = session.execute("SELECT * FROM run ORDER BY id").fetchall()
        (new,) = session.execute(
            "INSERT INTO run (kind, requested_by, params, patterns) VALUES ('x', '', '{}', '[]') RETURNING id"
        ).fetchall()
    shown = [(one["id"], one["former_id"], one["kind"], one["state"], one["position"]) for one in rows[:6]]
    assert shown == [
        (1, None, "redeliver", "succeeded", None),
        (2, None, "ingest", "succeeded", None),
        (3, None, "compare", "cancelled", None),
        (4, 7, "compare", "succeeded", {}),
        (5, None, "dry_run", "queued", {"after": 60}),
        (6, 2, "alike_groups", "succeeded", {}),
    ]
    redelivery, ingest, _, comparison, dry_run, search = rows[:6]
    assert (redelivery["result"], redelivery["expires_at"].day, ingest["expires_at"]) == ({"claimed": 3}, 3, None)
    assert comparison["params"] == {"selection_id": 70, "against": None, "with_payload": True, "address_ids": [1, 2]}
    assert comparison["result"] == {
        "against": {"state": ["DLVD"]},
        "failing_count": 10,
        "others_count": 40,
        "address_ids": [1, 2],
        "failing": 5,
        "others": 7,
        "fields": 3,
        "tested": 30,
        "findings": [{"conditions": []}],
    }
    assert (comparison["account"], comparison["patterns"], comparison["done"]) == ("user 1", [["orders.#"]], 12)
    assert (comparison["created_at"].day, comparison["ended_at"].day, comparison["expires_at"].year) == (1, 2, 2199)
    assert dry_run["params"] == {"rule_id": 9, "rule_version": 2, "cut_off": 100}
    assert dry_run["result"] == {"read": 60, "matched": 30, "found": [{"matched": 30}]}
    assert search["result"] == {"groups": 3, "left_out": 4, "proposals": 1, "groups_digest": "d1"}
    assert (search["params"], search["done"], search["expires_at"]) == ({}, 3, None)
    assert (search["created_at"].day, search["ended_at"].day) == (1, 2)
    others = {(one["kind"], one["former_id"], one["state"], one["error"]) for one in rows[6:]}
    assert others == {
        *(("compare", 900, "queued", None), ("dry_run", None, "failed", "it was changed")),
        *(("alike_groups", 950, "queued", None), ("alike_groups", 951, "failed", "no space")),
    }
    assert all(one["id"] > 900 for one in rows[6:]), "an id is not another comparison's"
    assert all(one["id"] > 951 for one in rows[6:] if one["kind"] == "alike_groups"), "nor another search's"
    assert new["id"] > 951


SEARCHES = """
INSERT INTO job (id, kind, state, params, counts, requested_by, started_at, finished_at, worker, done)
OVERRIDING SYSTEM VALUE VALUES
    (1, 'search', 'cancelled', '{"search_id": 7}', '{}', 'kim', '2026-01-01Z', '2026-01-01Z', 'spark-batch', 4),
    (2, 'search', 'succeeded', '{"search_id": 7}', '{}', 'kim', '2026-01-01Z', '2026-01-02Z', 'spark-batch', 90),
    (3, 'search', 'running', '{"search_id": 8}', '{}', 'kim', '2026-01-03Z', NULL, 'spark-batch', 30);
INSERT INTO search (id, filter, state, requester, requested_by, patterns, reads_payloads, live_above, file_above, read,
                    total, hits, archived_hits, is_capped, outside_archive, selection_id, job_id, error, requested_at,
                    first_hit_at, ended_at, expires_at) OVERRIDING SYSTEM VALUE VALUES
    (7, '{"q": ["payload:x"]}', 'completed', 'user 1', 'kim', '[["orders.#"]]', TRUE, 0, 5, 95, 100, 2, 1, FALSE,
     '["version"]', 70, 2, NULL, '2026-01-01Z', '2026-01-01T01:00Z', '2026-01-02Z', '2199-01-01Z'),
    (8, '{"q": ["payload:y"]}', 'running', 'user 1', 'kim', '[]', TRUE, 40, 0, 30, 70, 1, 0, FALSE, '[]', NULL, 3,
     NULL, '2026-01-03Z', '2026-01-03Z', NULL, '2199-01-01Z'),
    (900, '{"q": ["header.a:1"]}', 'running', 'user 2', 'lee', '[]', FALSE, 70, 0, 0, 0, 0, 0, FALSE, '[]', NULL, NULL,
     NULL, '2026-01-04Z', NULL, NULL, '2199-01-01Z'),
    (901, '{"q": ["header.a:2"]}', 'failed', 'user 2', 'lee', '[]', FALSE, 70, 0, 0, 0, 0, 0, FALSE, '[]', NULL, NULL,
     'no room', '2026-01-05Z', NULL, '2026-01-06Z', '2199-01-01Z');
INSERT INTO search_hit (search_id, message_id, archived)
VALUES (7, 1, NULL), (7, 2, '{"state": "DLVD"}'), (8, 50, NULL);
SELECT setval('job_id_seq', 3);
"""


@pytest.mark.usefixtures("services")
def test_searches_and_their_hits_are_still_there(made: Callable[[str], str]) -> None:
    url = made(FORMER + SEARCHES)
    assert migrate(url).returncode == 0
    with psycopg.connect(url, row_factory=dict_row) as session:
        former, ended, going, waiting, failed = session.execute("SELECT * FROM run ORDER BY id").fetchall()
        hits = session.execute("SELECT search_id, message_id FROM search_hit ORDER BY 1, 2").fetchall()
    assert (former["id"], former["former_id"], former["position"]) == (1, None, None)
    assert [(one["former_id"], one["state"], one["done"], one["total"]) for one in (ended, going, waiting, failed)] == [
        (7, "succeeded", 100, 100), (8, "queued", 30, 70), (900, "queued", 0, None), (901, "failed", 0, 0),
    ]  # fmt: skip
    assert ended["params"] == {"filter": {"q": ["payload:x"]}, "reads_payloads": True, "newest": 0}
    assert datetime.fromisoformat(ended["result"].pop("first_hit_at")) == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert ended["result"] == {
        "hits": 2,
        "archived_hits": 1,
        "is_capped": False,
        "outside_archive": ["version"],
        "selection": 70,
    }
    assert (ended["account"], ended["patterns"], ended["created_at"].day) == ("user 1", [["orders.#"]], 1)
    assert (ended["ended_at"].day, ended["expires_at"].year, going["expires_at"]) == (2, 2199, None)
    assert (going["position"], going["worker"]) == ({"live_above": 40, "file_above": 0}, None)
    assert (failed["error"], failed["account"], waiting["kind"]) == ("no room", "user 2", "search")
    assert min(waiting["id"], failed["id"]) > 901, "an id is not another search's"
    assert [tuple(one.values()) for one in hits] == [(7, 1), (7, 2), (8, 50)]


CHECKS = """
INSERT INTO broker_look (id, purpose, source_id, kind, config, secrets, asked_by, asked_at, taken_at, answered_at,
                          answer, error) OVERRIDING SYSTEM VALUE VALUES
    (7, 'queues', NULL, 'rabbitmq', '{"url": "amqp://r"}', '{}', 'kim', '2026-01-01Z', '2026-01-01Z', '2026-01-02Z',
     '{"depth": null, "queues": [], "messages": []}', NULL),
    (8, 'connection', NULL, 'kafka', '{}', '{"password": "p"}', 'kim', '2026-01-01Z', '2026-01-01Z', NULL, NULL, NULL),
    (9, 'connection', NULL, 'kafka', '{}', '{"password": "p"}', 'lee', '2026-01-01Z', NULL, NULL, NULL, NULL),
    (900, 'connection', NULL, 'kafka', '{}', '{}', 'lee', '2026-01-01Z', '2026-01-01Z', '2026-01-02Z', NULL, 'gone');
"""


@pytest.mark.usefixtures("services")
def test_broker_checks_are_still_there_and_only_one_that_waits_has_a_login(made: Callable[[str], str]) -> None:
    url = made(FORMER + CHECKS)
    assert migrate(url).returncode == 0
    with psycopg.connect(url, row_factory=dict_row) as session:
        found = session.execute("SELECT * FROM run ORDER BY id").fetchall()
    assert [(one["former_id"], one["state"], one["secrets"], one["error"]) for one in found] == [
        (7, "succeeded", None, None),
        (8, "failed", None, "It ended its worker."),
        (9, "queued", {"password": "p"}, None),
        (900, "failed", None, "gone"),
    ]
    assert found[0]["params"] == {
        "purpose": "queues",
        "kind": "rabbitmq",
        "config": {"url": "amqp://r"},
        "source_id": None,
    }
    assert found[0]["result"] == {"depth": None, "queues": [], "messages": []}
    assert (found[2]["requested_by"], found[2]["expires_at"].minute, found[0]["id"] > 900) == ("lee", 15, True)


REPORTS = """
INSERT INTO job (id, kind, state, params, counts, requested_by, started_at, finished_at, worker, done)
OVERRIDING SYSTEM VALUE VALUES
    (1, 'report', 'cancelled', '{"report_id": 7}', '{}', 'kim', '2026-01-01Z', '2026-01-01Z', 'spark-batch', 4),
    (2, 'report', 'succeeded', '{"report_id": 7}', '{"rows": 12}', 'kim', '2026-01-01Z', '2026-01-02Z',
     'spark-batch', 90),
    (3, 'report', 'running', '{"report_id": 8}', '{}', 'kim', '2026-01-03Z', NULL, 'spark-batch', 30);
INSERT INTO saved_report (id, name, owner, owner_account, asked, send_to, secrets) OVERRIDING SYSTEM VALUE
VALUES (40, 'weekly', 'kim', 'user 1', '{"kind": "failures"}', '{}', '{}');
INSERT INTO report (id, kind, state, asked, saved_id, shows_payload, cut_off, place, done, total, rows, bytes, sha256,
                    error, job_id, requested_by, account, patterns, requested_at, ended_at, expires_at)
OVERRIDING SYSTEM VALUE VALUES
    (7, 'failures', 'ready', '{"kind": "failures"}', 40, TRUE, 100, '{}', 90, 100, 12, 345, 'ab', NULL, 2, 'kim',
     'user 1', '[["orders.#"]]', '2026-01-01Z', '2026-01-02Z', '2199-01-01Z'),
    (8, 'attempts', 'running', '{"kind": "attempts"}', NULL, FALSE, 70,
     '{"after": 30, "until": 70, "days": ["2026-01-01"], "archive": "1-1-1", "parts": 2}', 30, 70, NULL, NULL, NULL,
     NULL, 3, 'kim', 'user 1', '[]', '2026-01-03Z', NULL, NULL),
    (900, 'failures', 'queued', '{"kind": "failures"}', NULL, FALSE, 70, '{}', 0, 0, NULL, NULL, NULL, NULL, NULL,
     'lee', 'token 2', '[]', '2026-01-04Z', NULL, NULL),
    (901, 'failures', 'expired', '{"kind": "failures"}', NULL, FALSE, 70, '{}', 9, 9, 3, 30, 'cd', 'erased', NULL,
     'lee', 'token 2', '[]', '2026-01-05Z', '2026-01-06Z', '2026-01-07Z');
SELECT setval('job_id_seq', 3);
"""


@pytest.mark.usefixtures("services")
def test_reports_are_still_there(made: Callable[[str], str]) -> None:
    url = made(FORMER + REPORTS)
    assert migrate(url).returncode == 0
    with psycopg.connect(url, row_factory=dict_row) as session:
        former, ended, going, waiting, erased = session.execute("SELECT * FROM run ORDER BY id").fetchall()
    assert (former["id"], former["former_id"], former["position"]) == (1, None, None)
    assert [(one["former_id"], one["state"], one["done"], one["total"]) for one in (ended, going, waiting, erased)] == [
        (7, "succeeded", 100, 100), (8, "queued", 30, 70), (900, "queued", 0, None), (901, "failed", 9, 9),
    ]  # fmt: skip
    assert ended["params"] == {
        "asked": {"kind": "failures"},
        "saved_id": 40,
        "shows_payload": True,
        "cut_off": 100,
    }
    assert datetime.fromisoformat(ended["result"].pop("file_until")) == datetime(2199, 1, 1, tzinfo=UTC)
    assert ended["result"] == {"rows": 12, "bytes": 345, "sha256": "ab"}
    assert (ended["account"], ended["patterns"], ended["created_at"].day) == ("user 1", [["orders.#"]], 1)
    assert (ended["ended_at"].day, ended["expires_at"].month, going["expires_at"]) == (2, 4, None)
    assert going["position"] == {"after": 30, "until": 70, "days": ["2026-01-01"], "archive": "1-1-1", "parts": 2}
    assert (going["worker"], waiting["position"], waiting["account"]) == (None, {}, "token 2")
    assert (erased["error"], erased["result"]) == ("erased", None)
    assert min(waiting["id"], erased["id"]) > 901, "an id is not another report's"


ARCHIVE = """
INSERT INTO job (id, kind, state, params, counts, requested_by, started_at, finished_at, worker, done)
OVERRIDING SYSTEM VALUE VALUES
    (1, 'archive', 'failed', '{"archive_run": 7}', '{}', 'system', '2026-01-01Z', '2026-01-01Z', 'batch', 4),
    (2, 'archive', 'succeeded', '{"archive_run": 7}', '{}', 'system', '2026-01-01Z', '2026-01-02Z', 'batch', 90),
    (3, 'erase', 'running', '{"erasure": 5}', '{}', 'kim', '2026-01-03Z', NULL, 'batch', 30),
    (4, 'regroup', 'running', '{"regrouping": 3}', '{}', 'command line', '2026-01-03Z', NULL, 'batch', 30);
INSERT INTO archive_run (id, state, as_of, is_dry_run, cut_off, planned, live_payloads, archived_payloads,
                         payloads_removed, cutoffs, totals, error, job_id, is_cancelling, waits_until, requested_by,
                         requested_at, ended_at) OVERRIDING SYSTEM VALUE VALUES
    (7, 'done', '2026-01-01Z', FALSE, 100, 90, 100, 60, 5, '[{"address_id": 1}]', '{"messages": {"rows": 40}}', NULL, 2,
     FALSE, NULL, 'system', '2026-01-01Z', '2026-01-02Z'),
    (8, 'done', '2026-01-01Z', TRUE, 100, 100, 0, 60, 0, '[]',
     '{"addresses": {"a": {"DLVD": 2, "FAIL": 3}, "b": {"FAIL": 1}}, "payloads": {"a": 4}}', NULL, NULL, FALSE, NULL,
     'kim', '2026-01-03Z', '2026-01-04Z'),
    (9, 'running', '2026-01-01Z', FALSE, 100, 50, 0, 0, 0, '[]', '{}', 'no room', NULL, TRUE, NULL, 'kim',
     '2026-01-05Z', NULL),
    (900, 'running', '2026-01-01Z', FALSE, 100, 50, 0, 0, 0, '[]', '{}', 'no room', NULL, FALSE, '2199-01-01Z', 'kim',
     '2026-01-06Z', NULL);
INSERT INTO archive_piece (id, run_id, number, after_id, until_id, held_by, rows) OVERRIDING SYSTEM VALUE
VALUES (1, 7, 0, 0, 50, '{}', '{}');
INSERT INTO erasure (id, filter, reason, state, totals, job_id, requested_by, requested_at, ended_at)
OVERRIDING SYSTEM VALUE VALUES
    (4, '{}', 'letter', 'done', '{"erased": 2, "left_alone": 0}', NULL, 'kim', '2026-01-01Z', '2026-01-02Z'),
    (5, '{"message_id": ["m"]}', 'letter', 'running', '{}', 3, 'kim', '2026-01-03Z', NULL);
INSERT INTO erased_message (id, erasure_id, address_id) VALUES (71, 4, 1), (72, 4, 1), (73, 5, 1);
INSERT INTO regrouping (id, cut_off, surveyed, archive_surveyed, planned_at, dissolved, former, read, changed, job_id,
                        requested_by, requested_at, finished_at)
OVERRIDING SYSTEM VALUE VALUES
    (2, 50, 50, 1, '2026-01-01Z', '{"6": 7}', '[8]', 60, 20, NULL, 'kim', '2026-01-01Z', '2026-01-02Z'),
    (3, 100, 100, 2, '2026-01-03Z', '{"9": 7}', '[8]', 60, 20, 4, 'command line', '2026-01-03Z', NULL);
SELECT setval('job_id_seq', 4);
"""


@pytest.mark.usefixtures("services")
def test_runs_of_the_archive_erasures_and_regroupings_go_on(made: Callable[[str], str]) -> None:
    url = made(FORMER + ARCHIVE)
    assert migrate(url).returncode == 0
    with psycopg.connect(url, row_factory=dict_row) as session:
        rows: list[dict[str, Any]] = session.execute("SELECT * FROM run ORDER BY id").fetchall()
        pieces = session.execute("SELECT run_id, number FROM archive_piece").fetchall()
        erased = session.execute("SELECT id, erasure_id FROM erased_message ORDER BY 1").fetchall()
    assert (rows[0]["id"], rows[0]["former_id"], rows[0]["position"]) == (1, None, None)
    found = {(one["kind"], one["former_id"]): one for one in rows[1:]}
    assert {key: (one["state"], one["done"], one["total"]) for key, one in found.items()} == {
        ("archive", 7): ("succeeded", 100, 100),
        ("archive", 8): ("succeeded", 100, 100),
        ("archive", 9): ("cancelling", 50, 100),
        ("archive", 900): ("queued", 50, 100),
        ("erase", 4): ("succeeded", 2, None),
        ("erase", 5): ("queued", 1, None),
        ("regroup", 2): ("succeeded", 20, 20),
        ("regroup", 3): ("queued", 0, None),
    }
    assert [found[key]["id"] for key in (("archive", 7), ("erase", 5), ("regroup", 3))] == [2, 3, 4]
    assert min(one["id"] for one in rows[4:]) > 900, "an id is not another run's"
    ended, dry, waiting = found["archive", 7], found["archive", 8], found["archive", 900]
    assert datetime.fromisoformat(ended["params"].pop("as_of")) == datetime(2026, 1, 1, tzinfo=UTC)
    assert ended["params"] == {"is_dry_run": False, "cut_off": 100, "cutoffs": [{"address_id": 1}]}
    assert ended["position"] == {"planned": 90, "live_payloads": 100, "archived_payloads": 60}
    assert ended["result"] == {"messages": 40, "payloads": 5}
    assert dry["result"] == {
        "messages": 6,
        "payloads": 4,
        "messages_at": {"a": {"DLVD": 2, "FAIL": 3}, "b": {"FAIL": 1}},
        "payloads_at": {"a": 4},
    }
    assert (waiting["error"], waiting["resumes_at"].year, waiting["worker"]) == ("no room", 2199, None)
    assert found["erase", 4]["result"] == {"erased": 2, "left_alone": 0, "held_by": []}
    assert (found["erase", 5]["result"], found["erase", 5]["position"]) == (None, {})
    assert found["erase", 5]["params"] == {"filter": {"message_id": ["m"]}, "reason": "letter"}
    assert found["regroup", 2]["result"] == {"read": 60, "changed": 20}
    # It begins anew: what has moved already does not change again.
    assert found["regroup", 3]["result"] == {"read": 0, "changed": 0}
    assert found["regroup", 3]["position"] == {
        "surveyed": 0,
        "archive_surveyed": 0,
        "moved_until": 0,
        "archive_moved": 0,
        "is_decided": False,
    }
    assert [tuple(one.values()) for one in pieces] == [(7, 0)]
    assert [tuple(one.values()) for one in erased] == [(71, 4), (72, 4), (73, 5)]


ANNOTATIONS = """
INSERT INTO auth_user (id, username, password, is_superuser, first_name, last_name, email, is_staff, is_active,
                       date_joined) OVERRIDING SYSTEM VALUE
VALUES (4, 'kim', '', FALSE, '', '', '', FALSE, TRUE, '2026-01-01Z');
INSERT INTO message_owner (message_id, owner_id) VALUES (1, 4), (2, 4);
INSERT INTO message_tag (message_id, tags) VALUES (2, '{eu,late}'), (3, '{odd}');
INSERT INTO group_annotation (group_id, owner_id, note, ticket_url, tags, snoozed_until, revision) VALUES
    (1, 4, 'known', 'https://t.example.org/1', '{db}', '2199-01-01Z', 3), (2, NULL, '', NULL, '{}', NULL, 0);
"""


@pytest.mark.usefixtures("services")
def test_owners_tags_and_notes_of_messages_and_groups_are_in_one_table(made: Callable[[str], str]) -> None:
    url = made(FORMER + ANNOTATIONS)
    assert migrate(url).returncode == 0
    with psycopg.connect(url) as session:
        found = session.execute(
            """SELECT message_id, group_id, owner_id, tags, note, ticket_url, extract(year FROM snoozed_until), revision
            FROM annotation ORDER BY message_id, group_id"""
        ).fetchall()
    assert found == [
        (1, None, 4, [], "", None, None, 0),
        (2, None, 4, ["eu", "late"], "", None, None, 0),
        (3, None, None, ["odd"], "", None, None, 0),
        (None, 1, 4, ["db"], "known", "https://t.example.org/1", 2199, 3),
    ]
