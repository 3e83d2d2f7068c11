"""Which values are in force on an address, and where each comes from."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.core.domain.addresses import InvalidAddress, matches, specificity
from poisonadmin.policies.domain.policy import BUILT_IN, UnknownPreset, preset
from poisonadmin.policies.domain.resolution import (
    BUILT_IN_ORIGIN,
    FIELDS,
    PolicyIndex,
    PolicySpec,
    ValueOrigin,
    resolve,
)
from poisonadmin.policies.domain.settings import InvalidSetting, UnknownSetting


def test_without_any_policy_the_built_in_one_is_in_force() -> None:
    resolved = resolve([], "orders.eu")
    assert resolved.policy == BUILT_IN
    assert resolved.destination is None
    assert resolved.origins == dict.fromkeys(FIELDS, BUILT_IN_ORIGIN)


def test_settings_are_merged_field_by_field() -> None:
    """ART-18."""
    specs = [
        PolicySpec("#", settings={"redelivery_delay": 1000, "max_delivery_attempts": 7}),
        PolicySpec("orders.#", settings={"redelivery_delay": 2000}, destination="orders-http"),
        PolicySpec("orders.eu", settings={"dead_letter_address": "dead"}),
    ]
    resolved = resolve(specs, "orders.eu")
    policy = resolved.policy
    assert (policy.dead_letter_address, policy.redelivery_delay, policy.max_delivery_attempts) == ("dead", 2000, 7)
    assert policy.redelivery_delay_multiplier == BUILT_IN.redelivery_delay_multiplier
    assert resolved.destination == "orders-http"
    assert resolved.origins["dead_letter_address"] == ValueOrigin("orders.eu", None)
    assert resolved.origins["redelivery_delay"] == ValueOrigin("orders.#", None)
    assert resolved.origins["destination"] == ValueOrigin("orders.#", None)
    assert resolved.origins["max_delivery_attempts"] == ValueOrigin("#", None)
    assert resolved.origins["redelivery_delay_multiplier"] == BUILT_IN_ORIGIN


def test_a_preset_sets_every_field_where_it_matches() -> None:
    """R9."""
    specs = [PolicySpec("#", settings={"ordered": True, "crash_limit": 5}), PolicySpec("orders.#", "artemis")]
    resolved = resolve(specs, "orders.eu")
    assert resolved.policy == preset("artemis")
    assert set(resolved.origins.values()) == {ValueOrigin("orders.#", "artemis")}


@pytest.mark.conformance("ART-k", "R9")
def test_a_preset_above_the_same_preset_adds_its_settings_only() -> None:
    specs = [
        PolicySpec("w.#", "artemis", {"max_delivery_attempts": 3, "dead_letter_address": "x"}),
        PolicySpec("w.x.#", "artemis", {"redelivery_delay": 100}),
        PolicySpec("w.x.y.#", "sap"),
        PolicySpec("w.x.y.z", "artemis"),
    ]
    policy = resolve(specs, "w.x.a").policy
    assert (policy.redelivery_delay, policy.max_delivery_attempts, policy.dead_letter_address) == (100, 3, "x")
    assert resolve(specs, "w.x.y.z").policy == preset("artemis")


def test_an_override_beside_a_preset_is_told_from_it() -> None:
    resolved = resolve([PolicySpec("orders.#", "artemis", {"max_delivery_attempts": 3})], "orders")
    assert resolved.policy.max_delivery_attempts == 3
    assert resolved.origins["max_delivery_attempts"] == ValueOrigin("orders.#", None)
    assert resolved.origins["redelivery_delay"] == ValueOrigin("orders.#", "artemis")


def test_a_less_specific_preset_does_not_undo_a_more_specific_setting() -> None:
    specs = [PolicySpec("orders.eu", settings={"redelivery_delay": 1}), PolicySpec("#", "sap", destination="park")]
    resolved = resolve(specs, "orders.eu")
    assert (resolved.policy.redelivery_delay, resolved.policy.max_delivery_attempts) == (1, 4)
    assert resolved.destination == "park"


def test_null_sets_a_field_back_to_none() -> None:
    specs = [
        PolicySpec("#", settings={"dead_letter_address": "dead"}),
        PolicySpec("orders.#", settings={"dead_letter_address": None}),
    ]
    assert resolve(specs, "orders").policy.dead_letter_address is None
    assert resolve(specs, "invoices").policy.dead_letter_address == "dead"


def test_a_vip_address_is_never_exhausted() -> None:
    """ART-h."""
    specs = [
        PolicySpec("orders.#", settings={"max_delivery_attempts": 3}),
        PolicySpec("orders.vip", settings={"max_delivery_attempts": -1}),
    ]
    book = PolicyIndex(specs)
    assert book.resolve("orders.vip").policy.max_delivery_attempts == -1
    assert book.resolve("orders.vip.gold").policy.max_delivery_attempts == 3


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (PolicySpec("ord*"), InvalidAddress),
        (PolicySpec("#", "rabbitmq"), UnknownPreset),
        (PolicySpec("#", settings={"delay": 1}), UnknownSetting),
        (PolicySpec("#", settings={"ordered": 1}), InvalidSetting),
    ],
)
def test_a_wrong_policy_is_refused(spec: PolicySpec, error: type[Exception]) -> None:
    with pytest.raises(error):
        PolicyIndex([spec])


def test_two_policies_with_one_pattern_are_refused() -> None:
    with pytest.raises(ValueError, match="Two policies match 'orders'"):
        PolicyIndex([PolicySpec("orders"), PolicySpec("orders")])


def test_addresses_with_the_same_policies_share_one_answer() -> None:
    book = PolicyIndex([PolicySpec("orders.#", "artemis")])
    assert book.resolve("orders.eu") is book.resolve("orders.us")
    assert book.resolve("orders.eu") is not book.resolve("invoices")


PATTERNS = ["#", "a.#", "a.*", "a.b", "*.b", "#.b", "*.*"]
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "redelivery_delay": st.integers(0, 9),
        "max_delivery_attempts": st.integers(1, 9),
        "ordered": st.booleans(),
    },
)
SPECS = st.dictionaries(st.sampled_from(PATTERNS), st.tuples(st.sampled_from([None, "artemis", "sap"]), SETTINGS))


@given(SPECS, st.sampled_from([".".join(words) for words in product("abc", repeat=2)] + ["a", "b"]))
def test_each_field_comes_from_the_most_specific_policy_that_sets_it(
    written: dict[str, tuple[str | None, dict[str, object]]], address: str
) -> None:
    specs = [PolicySpec(pattern, name, settings) for pattern, (name, settings) in written.items()]
    resolved = resolve(specs, address)
    matching = [
        spec for spec in sorted(specs, key=lambda spec: specificity(spec.pattern)) if matches(spec.pattern, address)
    ]
    # A preset above the same preset adds its settings only (R9).
    presets = [spec for spec in matching if spec.preset]
    adds_only = {spec.pattern for spec, below in pairwise(presets) if spec.preset == below.preset}
    for field in FIELDS:
        setting = next(
            (spec for spec in matching if field in spec.settings or (spec.preset and spec.pattern not in adds_only)),
            None,
        )
        if setting is None:
            expected, origin = getattr(BUILT_IN, field), BUILT_IN_ORIGIN
        elif field in setting.settings:
            expected, origin = setting.settings[field], ValueOrigin(setting.pattern, None)
        else:
            expected, origin = getattr(preset(str(setting.preset)), field), ValueOrigin(setting.pattern, setting.preset)
        assert getattr(resolved.policy, field) == expected
        assert resolved.origins[field] == origin
