"""The wait of a failed message, and its explanation (ART-2 to ART-5, ART-19, R1, R8)."""

import hashlib
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from poisonadmin.policies.domain.policy import Policy

Sign = Literal[1, -1]

# Artemis computes in a Java long, and a conversion to one saturates. Nothing beyond can pass the cap anyway.
LONG_MAX = 2**63 - 1
LONG_BITS = 63
MAX_RETRY_AFTER_MS = 24 * 60 * 60 * 1000
_SECONDS = re.compile(r"[0-9]{1,12}\Z")


@dataclass(frozen=True)
class Explanation:
    """The terms of one delay, in milliseconds: base x multiplier^exponent, jittered, then capped."""

    base: int
    multiplier: float
    exponent: int
    compounded: int
    sign: Sign
    fraction: float
    jitter_ms: int
    uncapped: int
    cap: int
    delay: int

    def formula(self) -> str:
        """Return the terms as one line.

        >>> policy = Policy(
        ...     redelivery_delay=5000, redelivery_delay_multiplier=1.5, redelivery_collision_avoidance_factor=0.15
        ... )
        >>> explain(policy, 4, message_id=17, attempt_number=4).formula()
        '5000 ms x 1.5^3 = 16875, jitter -2078 -> 14797, cap 50000'
        """
        compounding = f"{self.base} ms x {_plain(self.multiplier)}^{self.exponent} = {self.compounded}"
        jittered = f", jitter {self.jitter_ms:+d} -> {self.uncapped}" if self.jitter_ms else ""
        return compounding + jittered + (", capped at " if self.uncapped > self.cap else ", cap ") + str(self.cap)


def delay_ms(policy: Policy, failures: int, *, sign: Sign = 1, fraction: float = 0.0) -> int:
    """Return the wait after the `failures`-th failure, in milliseconds; 0 failures count as 1.

    Shape: 0..`policy.delay_cap`. Without `fraction` there is no jitter. The arithmetic is that of a double, as in
    Artemis: 100 x 1.15 is 114.

    >>> policy = Policy(redelivery_delay=1000, redelivery_collision_avoidance_factor=0.5)
    >>> [delay_ms(policy, 1, sign=sign, fraction=fraction) for sign, fraction in [(-1, 0.25), (1, 0.75), (-1, 0.05)]]
    [875, 1375, 975]
    """
    return min(_jittered(policy, _compounded(policy, failures), sign, fraction), policy.delay_cap)


def jitter(message_id: int, attempt_number: int) -> tuple[Sign, float]:
    """Return the sign and the fraction, uniform on [0, 1), of the jitter after a failed attempt (R8).

    The same message and attempt always get the same; the sign takes a bit that the fraction does not use.

    >>> jitter(17, 4)
    (-1, 0.8206364455186644)
    """
    digest = hashlib.sha256(f"{message_id}:{attempt_number}".encode()).digest()
    sign: Sign = 1 if digest[8] & 1 else -1
    return sign, (int.from_bytes(digest[:8]) >> 11) / 2**53


def explain(policy: Policy, failures: int, message_id: int, attempt_number: int) -> Explanation:
    """Return the terms of the wait after the `failures`-th failure, which attempt `attempt_number` was."""
    sign, fraction = jitter(message_id, attempt_number)
    compounded = _compounded(policy, failures)
    uncapped = _jittered(policy, compounded, sign, fraction)
    return Explanation(
        base=policy.redelivery_delay,
        multiplier=policy.redelivery_delay_multiplier,
        exponent=_exponent(failures),
        compounded=compounded,
        sign=sign,
        fraction=fraction,
        jitter_ms=uncapped - compounded,
        uncapped=uncapped,
        cap=policy.delay_cap,
        delay=min(uncapped, policy.delay_cap),
    )


def _exponent(failures: int) -> int:
    return max(failures, 1) - 1


def _compounded(policy: Policy, failures: int) -> int:
    base, multiplier, exponent = policy.redelivery_delay, policy.redelivery_delay_multiplier, _exponent(failures)
    if base == 0:
        return 0
    # Looking at the size of the power before raising it keeps the millionth failure from overflowing.
    if multiplier > 1 and math.log2(base) + exponent * math.log2(multiplier) >= LONG_BITS:
        return LONG_MAX
    return min(int(base * multiplier**exponent), LONG_MAX)


def _jittered(policy: Policy, compounded: int, sign: Sign, fraction: float) -> int:
    share = sign * policy.redelivery_collision_avoidance_factor * fraction
    # A long is not exact as a double, so what is not jittered must not pass through one.
    return int(compounded + compounded * share) if share else compounded


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def retry_after_ms(value: str, *, now: datetime) -> int | None:
    """Return the wait that a `Retry-After` value asks for, in milliseconds; None when it cannot be read.

    Units and range: 0 to 24 hours; a longer wish is cut to that, a date that has passed is 0.

    >>> retry_after_ms("120", now=datetime(2026, 1, 1, tzinfo=UTC))
    120000
    >>> retry_after_ms("Thu, 01 Jan 2026 00:00:30 GMT", now=datetime(2026, 1, 1, tzinfo=UTC))
    30000
    """
    text = value.strip()
    if _SECONDS.match(text):
        return min(int(text) * 1000, MAX_RETRY_AFTER_MS)
    if not text.isascii() or len(text) > 64:
        return None
    try:
        at = parsedate_to_datetime(text)
        wait = (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    except (ValueError, OverflowError):
        return None
    return max(0, min(int(wait.total_seconds() * 1000), MAX_RETRY_AFTER_MS))
