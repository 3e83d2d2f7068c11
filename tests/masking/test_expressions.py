"""Regular expressions of masking rules, which run on texts that strangers sent."""

import time

import pytest

from poisonadmin.core.domain.masking import MaskInForce, Masks
from poisonadmin.masking.domain import InvalidMaskingRule, MaskingRuleFields, checked_rule


@pytest.mark.parametrize(
    "regex",
    [
        "(a+)+$",
        "(a|a)*b",
        r"\d+x",
        "a*?x",
        "(?>a+)b",
        "(?=a+)b",
        "(a{1,20}){1,20}b",
        "(a|aa){1,20}x",
        r"\w+@\w+",
        "a{1,99}b{1,99}x",
    ],
)
def test_an_expression_that_could_take_for_ever_is_refused(regex: str) -> None:
    with pytest.raises(InvalidMaskingRule, match="for ever"):
        checked_rule(MaskingRuleFields(match="orders.#", regex=regex))


@pytest.mark.parametrize(
    "regex", ["[A-Z]{2}[0-9]{20}", r"\w{1,30}@\w{1,30}", r"customer\s{0,9}:\d+", "Zoë|4711", "name=.*", r"\d{1,19}\b"]
)
def test_an_expression_with_limits_is_kept_and_takes_time_in_proportion_to_the_text(regex: str) -> None:
    rule = checked_rule(MaskingRuleFields(match="orders.#", regex=regex))
    assert rule.regex == regex
    began = time.process_time()
    Masks(b"key", (MaskInForce("orders.#", regex=regex),)).text("a" * 50_000 + "1" * 50_000)
    assert time.process_time() - began < 10
