"""The job over stored messages: it finds what is planted, and counts as a plain loop does."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from poisonadmin.comparisons.domain.association import Association
from poisonadmin.comparisons.domain.comparison import Compared
from poisonadmin.comparisons.domain.conditions import FieldCondition, Operator
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Body, Message
from tests.comparisons.incident import incident
from workers.spark.jobs.compare import compare

pytestmark = pytest.mark.django_db(transaction=True)


def order(n: int, is_failing: bool) -> dict[str, Any]:
    """Failing orders come from client 4.2.0 and are large; their customers are as all others'."""
    dice = random.Random(n)
    total = dice.uniform(1000, 5000) if is_failing else dice.uniform(1, 999)
    version = "4.2.0" if is_failing or dice.random() < 0.03 else dice.choice(["4.1.0", "4.0.9"])
    payload = {
        "order": {"total": round(total, 2), "currency": dice.choice(["EUR", "USD"])},
        "items": [{"sku": f"s-{dice.randrange(30)}"} for _ in range(dice.randrange(4))],
        "note": f"unlike any other {n}",
    }
    if not is_failing:
        payload["customer"] = {"id": dice.randrange(10)}
    return {"payload": payload, "headers": {"client-version": version, "trace": f"t-{n}"}}


@pytest.fixture
def asked(transactional_db: None) -> Compared:
    failing, others = incident(60, 600, order)
    return Compared(failing, others, with_payload=True)


def test_the_planted_causes_are_found_and_what_is_the_same_is_one_finding(spark: SparkSession, asked: Compared) -> None:
    phases: list[str] = []
    answer = compare(spark, asked, phases.append)
    assert (answer.failing, answer.others) == (60, 600)
    (finding,) = answer.findings
    conditions = {*finding.conditions, *finding.also}
    assert FieldCondition("payload.$.order.total", Operator.AT_LEAST, 1000.0) in conditions
    assert FieldCondition("payload.$.customer.id", Operator.MISSING) in conditions
    assert finding.counts == Association(60, 60, 0, 600)
    assert finding.p_value < 1e-20
    assert phases == ["reading messages and counting values", "looking for thresholds", "looking at what goes together"]


def test_counts_are_those_of_a_plain_loop(spark: SparkSession, asked: Compared) -> None:
    failing, others = asked.failing[:30], asked.others
    found = compare(spark, Compared(failing, others, with_payload=False))
    wanted = Association(versions_of(failing).count("4.2.0"), 30, versions_of(others).count("4.2.0"), 600)
    assert [(one.conditions, one.counts) for one in found.findings] == [
        ((FieldCondition("header.client-version", Operator.IS, "4.2.0"),), wanted)
    ]
    assert 5 < wanted.other_hits < 40


def test_nothing_is_found_in_fields_by_which_the_others_were_chosen(spark: SparkSession, asked: Compared) -> None:
    Message.objects.filter(id__in=asked.others).update(address=Address.objects.create(name="orders.elsewhere"))
    for fields, found in (((), True), (("address",), False)):
        answer = compare(spark, replace(asked, excluded_fields=fields))
        assert any("address" in [c.field for c in (*one.conditions, *one.also)] for one in answer.findings) is found


def versions_of(ids: Sequence[int]) -> list[str]:
    headers = Body.objects.filter(id__in=ids).values_list("headers", flat=True)
    return [json.loads(bytes(one))["client-version"] for one in headers]


def test_without_a_cause_nothing_is_found(spark: SparkSession, asked: Compared) -> None:
    alike = asked.others
    assert compare(spark, Compared(alike[::4], sorted({*alike} - {*alike[::4]}), with_payload=True)).findings == []


def test_messages_that_are_gone_are_not_counted(spark: SparkSession, asked: Compared) -> None:
    gone = Compared([*asked.failing, 10**12], [*asked.others, 10**12 + 1], with_payload=False)
    answer = compare(spark, gone)
    assert (answer.failing, answer.others) == (60, 600)


def test_a_payload_that_is_no_json_has_no_fields(spark: SparkSession) -> None:
    failing, others = incident(20, 200, lambda n, fails: {"payload": "{broken" if fails else {"a": n % 2}})
    (finding,) = compare(spark, Compared(failing, others, with_payload=True)).findings
    assert FieldCondition("payload.$.a", Operator.MISSING) in (*finding.conditions, *finding.also)
