"""The policy value, its presets and the checks on what an administrator overrides."""

from dataclasses import fields, replace

import pytest

from poisonadmin.policies.domain.policy import (
    BUILT_IN,
    PRESETS,
    Blame,
    ExceptionDestination,
    OnExhausted,
    Policy,
    UnknownPreset,
    preset,
)
from poisonadmin.policies.domain.settings import SETTINGS, InvalidSetting, UnknownSetting, validate_settings
from poisonadmin.policies.domain.warnings import warnings

# R9's list, in its order, and retention.
RULING = """
    redelivery_delay redelivery_delay_multiplier redelivery_collision_avoidance_factor max_redelivery_delay
    max_delivery_attempts dead_letter_address auto_create_dead_letter_resources dead_letter_queue_prefix
    dead_letter_queue_suffix max_failed_deliveries exception_destination exception_destination_address messaging_engine
    blocked_retry_timeout listener_max_retries backout_threshold backout_requeue_queue blacklisting_enabled crash_limit
    blame approve_clears_candidate crashes_count_as_failures
    rollbacks_count_as_failures failures_to_list crashes_to_list queue_off_after_rollbacks
    conversation_failure_limit conversation_error_address ordered max_payload_bytes business_keys fail_non_delivered
    persist_delivery_count_before_delivery on_exhausted
    keep_delivered_days keep_failed_days keep_payload_days
"""
NAMES = RULING.split()

ACCEPTED = [
    ("redelivery_delay", 0, 0),
    ("redelivery_delay_multiplier", 2, 2.0),
    ("redelivery_delay_multiplier", 0.5, 0.5),
    ("redelivery_collision_avoidance_factor", 1, 1.0),
    ("max_redelivery_delay", None, None),
    ("max_redelivery_delay", 0, 0),
    ("max_delivery_attempts", -1, -1),
    ("max_delivery_attempts", 1, 1),
    ("dead_letter_address", "dead.letters", "dead.letters"),
    ("dead_letter_address", None, None),
    ("dead_letter_queue_prefix", "", ""),
    ("dead_letter_queue_suffix", ".DLQ", ".DLQ"),
    ("exception_destination", "none", ExceptionDestination.NONE),
    ("messaging_engine", "engine.one", "engine.one"),
    ("listener_max_retries", None, None),
    ("listener_max_retries", 0, 0),
    ("blame", "all_in_flight", Blame.ALL_IN_FLIGHT),
    ("on_exhausted", "stay", OnExhausted.STAY),
    ("business_keys", ["$.order.id", "X-Customer"], ("$.order.id", "X-Customer")),
    ("ordered", True, True),
    ("keep_delivered_days", 0, 0),
    ("keep_failed_days", None, None),
    ("keep_payload_days", 7, 7),
]

REFUSED = [
    ("redelivery_delay", -1),
    ("redelivery_delay", 1.5),
    ("redelivery_delay", "5000"),
    ("redelivery_delay", True),
    ("redelivery_delay", None),
    ("redelivery_delay", 10**15),
    ("redelivery_delay_multiplier", -0.1),
    ("redelivery_delay_multiplier", float("nan")),
    ("redelivery_delay_multiplier", float("inf")),
    ("redelivery_delay_multiplier", "2"),
    ("redelivery_collision_avoidance_factor", 1.01),
    ("redelivery_collision_avoidance_factor", -0.01),
    ("redelivery_collision_avoidance_factor", False),
    ("max_redelivery_delay", -1),
    ("max_delivery_attempts", 0),
    ("max_delivery_attempts", -2),
    ("max_delivery_attempts", -1.0),
    ("max_delivery_attempts", None),
    ("dead_letter_address", "dead.#"),
    ("dead_letter_address", ""),
    ("dead_letter_address", 7),
    ("dead_letter_queue_prefix", "DLQ #"),
    ("dead_letter_queue_prefix", None),
    ("dead_letter_queue_suffix", "x" * 65),
    ("exception_destination", "elsewhere"),
    ("messaging_engine", ""),
    ("messaging_engine", "x" * 65),
    ("crash_limit", 0),
    ("blame", 1),
    ("ordered", 1),
    ("ordered", "true"),
    ("max_payload_bytes", 0),
    ("max_payload_bytes", 64 * 1024 * 1024 + 1),
    ("business_keys", "order"),
    ("business_keys", ["a"] * 6),
    ("business_keys", [""]),
    ("on_exhausted", None),
]


def test_the_policy_has_the_fields_of_the_ruling() -> None:
    assert {field.name for field in fields(Policy)} == set(NAMES)


def test_every_field_has_a_check() -> None:
    assert set(SETTINGS) == {field.name for field in fields(Policy)}


@pytest.mark.parametrize(("field", "given", "value"), ACCEPTED)
def test_a_good_setting_becomes_the_policys_value(field: str, given: object, value: object) -> None:
    assert validate_settings({field: given}) == {field: value}
    assert getattr(replace(BUILT_IN, **{field: value}), field) == value  # type: ignore[arg-type]


@pytest.mark.parametrize(("field", "given"), REFUSED)
def test_a_bad_setting_is_refused_by_its_name(field: str, given: object) -> None:
    with pytest.raises(InvalidSetting) as refused:
        validate_settings({"ordered": True, field: given})
    assert (refused.value.code, refused.value.field) == ("invalid_setting", field)
    assert refused.value.detail.startswith(f"{field}: ")


def test_an_unknown_setting_is_refused_by_its_name() -> None:
    with pytest.raises(UnknownSetting) as refused:
        validate_settings({"redelivery_delays": 5000})
    assert (refused.value.code, refused.value.field) == ("unknown_setting", "redelivery_delays")


@pytest.mark.parametrize("settings", [None, [], "ordered", 1])
def test_settings_must_be_an_object(settings: object) -> None:
    with pytest.raises(InvalidSetting):
        validate_settings(settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [BUILT_IN, *PRESETS.values()], ids=["built_in", *PRESETS])
def test_every_preset_passes_the_checks_on_settings(policy: Policy) -> None:
    values = {name: getattr(policy, name) for name in NAMES}
    assert validate_settings(values) == values


@pytest.mark.conformance("R10")
def test_what_is_in_force_when_nothing_is_configured() -> None:
    """R10."""
    assert BUILT_IN.redelivery_delay == 5000
    assert BUILT_IN.redelivery_delay_multiplier == 2
    assert BUILT_IN.max_redelivery_delay == 50_000
    assert BUILT_IN.redelivery_collision_avoidance_factor == 0.15
    assert BUILT_IN.max_delivery_attempts == 10
    assert BUILT_IN.blacklisting_enabled
    assert BUILT_IN.on_exhausted is OnExhausted.PARK


ARTEMIS_DEFAULTS = [
    ("ART-2", "redelivery_delay", 0),
    ("ART-3", "redelivery_delay_multiplier", 1.0),
    ("ART-4", "max_redelivery_delay", None),
    ("ART-5", "redelivery_collision_avoidance_factor", 0.0),
    ("ART-8", "max_delivery_attempts", 10),
    ("ART-9", "dead_letter_address", None),
    ("ART-9", "on_exhausted", OnExhausted.DISCARD),
    ("ART-13", "auto_create_dead_letter_resources", False),
    ("ART-14", "dead_letter_queue_prefix", "DLQ."),
    ("ART-14", "dead_letter_queue_suffix", ""),
    ("ART-16", "persist_delivery_count_before_delivery", False),
]


@pytest.mark.conformance("ART-2", "ART-3", "ART-4", "ART-5", "ART-8", "ART-9", "ART-13", "ART-14", "ART-16", "R10")
@pytest.mark.parametrize(("statement", "field", "value"), ARTEMIS_DEFAULTS)
def test_the_artemis_preset_has_the_brokers_defaults(statement: str, field: str, value: object) -> None:
    assert getattr(preset("artemis"), field) == value


@pytest.mark.conformance("R10", "WAS-5", "WAS-10", "SAP-12", "AMPS-13", "SSB-1", "SSB-10")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "sap",
            {"max_delivery_attempts": 4, "redelivery_delay": 300_000, "crash_limit": 2, "fail_non_delivered": False},
        ),
        ("websphere", {"max_failed_deliveries": 5, "exception_destination": "system", "blocked_retry_timeout": 5000}),
        ("websphere_mq", {"listener_max_retries": 0, "backout_threshold": 0, "on_exhausted": "stay"}),
        ("amps", {"failures_to_list": 1, "crashes_to_list": 1, "crash_limit": 1, "on_exhausted": "list"}),
        ("service_broker", {"conversation_failure_limit": 4, "queue_off_after_rollbacks": 5}),
    ],
)
def test_the_other_presets_have_their_systems_defaults(name: str, values: dict[str, object]) -> None:
    """R10's table."""
    assert {field: getattr(preset(name), field) for field in values} == values


@pytest.mark.conformance("R3")
@pytest.mark.parametrize("name", PRESETS)
def test_jms_systems_count_crashes_and_roll_backs_as_failures(name: str) -> None:
    policy = preset(name)
    counts = name in ("websphere", "websphere_mq", "artemis")
    assert (policy.crashes_count_as_failures, policy.rollbacks_count_as_failures) == (counts, counts)


@pytest.mark.conformance("R2", "R6")
def test_sap_accuses_all_in_flight_and_service_broker_is_ordered() -> None:
    assert {name for name in PRESETS if preset(name).blame is Blame.ALL_IN_FLIGHT} == {"sap"}
    assert {name for name in PRESETS if preset(name).ordered} == {"service_broker"}
    assert BUILT_IN.blame is Blame.EXACT
    assert "`exact` runs each alone and blacklists the killer" in warnings(preset("sap"))[0]


@pytest.mark.conformance("R11")
@pytest.mark.parametrize(
    ("policy", "is_warned"),
    [
        (Policy(), True),
        (Policy(redelivery_delay=1), False),
        (Policy(max_delivery_attempts=1000), False),
        (Policy(listener_max_retries=3), False),
        (Policy(redelivery_delay=5000, max_redelivery_delay=0), True),
        (replace(preset("websphere"), exception_destination=ExceptionDestination.NONE), False),
        (replace(preset("websphere"), exception_destination=ExceptionDestination.NONE, blocked_retry_timeout=0), True),
        (preset("service_broker"), True),
        (BUILT_IN, False),
    ],
)
def test_an_endless_series_without_a_wait_is_warned_of(policy: Policy, is_warned: bool) -> None:
    assert any("ends the redeliveries" in one for one in warnings(policy)) is is_warned


@pytest.mark.conformance("R11")
@pytest.mark.parametrize(
    ("policy", "what"),
    [
        (replace(BUILT_IN, blacklisting_enabled=False), "crashes its process"),
        (replace(preset("sap"), blacklisting_enabled=False), "crashes its process"),
        (Policy(max_delivery_attempts=5), "crashes its process or is rolled back"),
        (preset("amps"), "is rolled back"),
        (replace(BUILT_IN, blacklisting_enabled=False, crashes_to_list=3), None),
        (replace(BUILT_IN, blacklisting_enabled=False, crashes_count_as_failures=True), None),
        (replace(BUILT_IN, blacklisting_enabled=False, queue_off_after_rollbacks=5), None),
        (BUILT_IN, None),
        *((preset(name), None) for name in PRESETS if name != "amps"),
    ],
)
def test_endless_crashes_and_roll_backs_are_warned_of(policy: Policy, what: str | None) -> None:
    found = [one for one in warnings(policy) if one.startswith("No limit")]
    expected = f"No limit counts how often a message {what}, and it is redelivered without a wait: after 10 of them "
    assert found == ([] if what is None else [f"{expected}within 10 s each waits 1000 ms."])


@pytest.mark.conformance("R9")
def test_a_preset_switches_the_other_systems_limits_off() -> None:
    """R9."""
    artemis = preset("artemis")
    assert artemis.max_failed_deliveries == artemis.backout_threshold == artemis.failures_to_list == 0
    assert artemis.crashes_to_list == artemis.queue_off_after_rollbacks == artemis.conversation_failure_limit == 0
    assert artemis.listener_max_retries is None
    assert not artemis.blacklisting_enabled
    assert preset("websphere").max_delivery_attempts == -1


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownPreset, match="there are sap, websphere, websphere_mq, artemis, amps, service_broker"):
        preset("rabbitmq")


@pytest.mark.conformance("ART-4")
def test_the_longest_wait_is_ten_delays_unless_it_is_set() -> None:
    """ART-4."""
    assert Policy(redelivery_delay=5000).delay_cap == 50_000
    assert Policy(redelivery_delay=5000, max_redelivery_delay=0).delay_cap == 0


@pytest.mark.conformance("R5")
def test_a_listener_that_stops_before_it_moves_is_warned_of() -> None:
    """R5."""
    assert "listener_max_retries (2) should exceed" in warnings(Policy(listener_max_retries=2, backout_threshold=2))[0]
    counting = preset("websphere_mq")
    assert not any(
        "should exceed" in one for one in warnings(replace(counting, listener_max_retries=3, backout_threshold=2))
    )
    assert warnings(counting) == ()


def test_tries_that_are_over_at_once_are_warned_of() -> None:
    assert warnings(preset("artemis"))[0].startswith("The 10 tries follow each other without a wait: ")
    assert warnings(replace(preset("artemis"), redelivery_delay=1)) == ()
    assert warnings(replace(preset("artemis"), max_delivery_attempts=1)) == ()


def test_an_exception_destination_without_its_address_is_warned_of() -> None:
    specify = replace(BUILT_IN, exception_destination=ExceptionDestination.SPECIFY)
    assert len(warnings(specify)) == 1
    assert warnings(replace(specify, exception_destination_address="park.here")) == ()
