"""Why a decision on one message was refused, as an error."""

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import PoisonAdminError, PreconditionFailed
from poisonadmin.decisions.commands.decisions import STALE, Decided
from poisonadmin.decisions.queries import refusals
from poisonadmin.groups.domain.annotations import MAX_TAGS_OF_A_MESSAGE
from poisonadmin.messages.domain.states import Event, State, TransitionNotAllowed
from poisonadmin.messages.queries.archived_index import require_archived
from poisonadmin.messages.queries.payload_removals import PayloadRemoved, removal_of


class MessageArchived(PoisonAdminError):
    """Raised when a message is archived: nothing is decided on it until it is restored."""

    code = "message_archived"
    status = 409


class NoDestination(PoisonAdminError):
    """Raised when the return address of an approved message has no destination."""

    code = "no_destination"
    status = 409


class Oversized(PoisonAdminError):
    """Raised when an approved message is larger than its return address allows."""

    code = "oversized"
    status = 409


class NotMoved(PoisonAdminError):
    """Raised when a message is to return, but was never moved."""

    code = "not_moved"
    status = 409


class NotListed(PoisonAdminError):
    """Raised when what is to be released is not on the poison list."""

    code = "not_listed"
    status = 409


class Listed(PoisonAdminError):
    """Raised when a message is on the poison list of the address that it is redirected to."""

    code = "listed"
    status = 409


class ConversationEnded(PoisonAdminError):
    """Raised when the conversation of a message has ended on the address that it is redirected to."""

    code = "conversation_ended"
    status = 409


class PayloadNotChanged(PoisonAdminError):
    """Raised when a change does not apply to a message."""

    code = "payload_not_changed"
    status = 409


class NotAssigned(PoisonAdminError):
    """Raised when a message cannot get the owner, tags and note that were asked for, or has them already."""

    code = "not_assigned"
    status = 409


_NOT_ASSIGNED = {
    refusals.UNCHANGED: "The message has this owner, these tags and this note already.",
    refusals.TOO_MANY_TAGS: f"A message has at most {MAX_TAGS_OF_A_MESSAGE} tags; remove some first.",
    refusals.NO_OWNER: "There is no account of this name any more.",
}


def only(decided: Decided, message_id: int, principal: Principal) -> None:
    """Do nothing when the decision on this one message was carried out; raise why not. `principal`: who reads.

    Errors: `NotFound`, `MessageErased`, `MessageArchived`, `NoDestination`, `Oversized`, `NotMoved`, `NotListed`,
    `Listed`, `ConversationEnded`, `NotAssigned`, `PreconditionFailed`, `PayloadNotChanged`, `PayloadRemoved`,
    `TransitionNotAllowed`.
    """
    why = decided.refused.get(message_id)
    if why is None:
        return
    if why == refusals.NOT_FOUND:
        require_archived(message_id, principal)
        raise MessageArchived(f"Message {message_id} is archived; restore it first, then decide.")
    if why == refusals.NO_DESTINATION:
        raise NoDestination("The address that this message would go to delivers nowhere; give it a destination first.")
    if why == refusals.OVERSIZED:
        raise Oversized("The payload is larger than its address takes; raise max_payload_bytes in its policy first.")
    if why == refusals.PAYLOAD_REMOVED and (removal := removal_of(message_id)) is not None:
        raise PayloadRemoved(message_id, removal, "; it cannot be delivered any more")
    if why == refusals.NOT_MOVED:
        raise NotMoved("This message was not moved; there is no other address to return it to.")
    if why == refusals.NOT_LISTED:
        raise NotListed("The message is not on the poison list; approve it instead.")
    if why == refusals.LISTED:
        raise Listed("The message is on the poison list of that address; release it there first.")
    if why == refusals.CONVERSATION_ENDED:
        raise ConversationEnded("The message's conversation has ended on that address.")
    if why == STALE:
        raise PreconditionFailed("The message has changed since it was read; nothing was done. Read it again.")
    if decided.event is Event.ASSIGNED and why in _NOT_ASSIGNED:
        raise NotAssigned(_NOT_ASSIGNED[why])
    if message_id in decided.details:
        detail = decided.details[message_id]
        raise PayloadNotChanged(f"Nothing was changed: {why}{f' ({detail})' if detail else ''}.")
    raise TransitionNotAllowed(State(why), decided.event)
