"""One file a table or two; imported from here."""

from poisonadmin.store.models.access import Access, ApiToken, IdempotencyKey
from poisonadmin.store.models.attempt import Attempt, FailureGroup
from poisonadmin.store.models.audit import Audit
from poisonadmin.store.models.broker_look import BrokerLook
from poisonadmin.store.models.claim import Claim, ClaimShard, Node
from poisonadmin.store.models.confirmation import Confirmation
from poisonadmin.store.models.conversation import Conversation
from poisonadmin.store.models.counter import Counter, CounterDelta
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.history import History
from poisonadmin.store.models.intake import BrokerReceipt, RejectedLine, Source, SourceFile, StagedMessage
from poisonadmin.store.models.job import Job
from poisonadmin.store.models.lane import Address, Lane
from poisonadmin.store.models.message import Body, Envelope, Hop, Message
from poisonadmin.store.models.poison import Consumer, PoisonEntry
from poisonadmin.store.models.policy import PolicyRow
from poisonadmin.store.models.rule import BusinessKey, DryRun, MessageTag, Restart, RestartJob, Rule
from poisonadmin.store.models.worker import Worker

__all__ = [
    "Access",
    "Address",
    "ApiToken",
    "Attempt",
    "Audit",
    "Body",
    "BrokerLook",
    "BrokerReceipt",
    "BusinessKey",
    "Claim",
    "ClaimShard",
    "Confirmation",
    "Consumer",
    "Conversation",
    "Counter",
    "CounterDelta",
    "Destination",
    "DryRun",
    "Envelope",
    "FailureGroup",
    "History",
    "Hop",
    "IdempotencyKey",
    "Job",
    "Lane",
    "Message",
    "MessageTag",
    "Node",
    "PoisonEntry",
    "PolicyRow",
    "RejectedLine",
    "Restart",
    "RestartJob",
    "Rule",
    "Source",
    "SourceFile",
    "StagedMessage",
    "Worker",
]
