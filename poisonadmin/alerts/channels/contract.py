"""The contract of a channel of alerts. Its secrets and answers are its own; the next try is not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Notice:
    """One try of a delivery. `webhook_id` and `body` are the same at every try. `secrets`: the newest first, or those
    that the channel hides of where it sends.
    """

    webhook_id: str
    body: str
    to: Sequence[str]
    secrets: Sequence[str]
    at: datetime


@dataclass(frozen=True)
class ChannelAnswer:
    """`text`: what the other side answered, or why it did not. `is_final`: another try would not help."""

    is_taken: bool
    text: str
    is_final: bool = False


@dataclass(frozen=True)
class PostAnswer:
    """The status of an HTTP answer and the beginning of its body; status None: `text` says why there is no answer."""

    status: int | None
    text: str


HttpPost = Callable[[str, Mapping[str, str], bytes], PostAnswer]
"""(URL, headers, body) -> the answer, within seconds; never raises. Passed in: what connects (workers) imports this."""


@dataclass(frozen=True)
class AlertChannel:
    """`check`: returns where to send, or raises InvalidAlertRule. `send`: never raises.

    `is_signed`: its rules have a secret. `gathers_seconds`: alerts of a rule within this time go together.
    `hide`: where to send, checked -> what is shown of it, and the secrets, which nobody is shown; None where all of it
    may be shown.
    """

    words: str
    to_words: str
    check: Callable[[Sequence[str]], list[str]]
    send: Callable[[Notice, HttpPost], ChannelAnswer]
    is_signed: bool
    gathers_seconds: int
    hide: Callable[[Sequence[str]], tuple[list[str], list[str]]] | None = None
