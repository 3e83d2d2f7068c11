"""Messages, all that can be asked about them."""

from poisonadmin.queries.filter_fields import InvalidFilter, Term
from poisonadmin.queries.message_detail import (
    MessageDetail,
    MessageNotFound,
    get_message,
    payload,
    payload_start,
)
from poisonadmin.queries.message_filter import MessageFilter, parse_filter
from poisonadmin.queries.message_list import Count, MessageRow, count_messages, iter_messages, list_messages
from poisonadmin.queries.message_log import AttemptRow, HistoryRow, HopRow, attempts, history, hops
from poisonadmin.queries.paging import InvalidCursor, Page
from poisonadmin.queries.schedule import Schedule, schedule

__all__ = [
    "AttemptRow",
    "Count",
    "HistoryRow",
    "HopRow",
    "InvalidCursor",
    "InvalidFilter",
    "MessageDetail",
    "MessageFilter",
    "MessageNotFound",
    "MessageRow",
    "Page",
    "Schedule",
    "Term",
    "attempts",
    "count_messages",
    "get_message",
    "history",
    "hops",
    "iter_messages",
    "list_messages",
    "parse_filter",
    "payload",
    "payload_start",
    "schedule",
]
