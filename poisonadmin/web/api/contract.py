"""What one method of one view takes and gives, said once: permissions, checks and the OpenAPI document all read it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

from poisonadmin.core.domain.access import Permission
from poisonadmin.web.api.inputs import StrictSerializer
from poisonadmin.web.api.parameters import Parameter
from poisonadmin.web.api.shape import JsonSchema, Shape

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True)
class Paged:
    """A page of `shape`s."""

    shape: Shape


@dataclass(frozen=True)
class Raw:
    """Bytes of some media type. `schema` describes one event, where they are a stream of events."""

    media_type: str = "application/octet-stream"
    schema: JsonSchema | None = None


Given = Shape | Paged | Raw | JsonSchema | None


@dataclass(frozen=True)
class Contract:
    """`acts`: Idempotency-Key is honoured. `is_streamed`: the body is read as a stream and committed as it goes.

    `decides`: If-Match is honoured. `raw_body`: the handler reads the body itself; media type -> schema.
    `checks_query` False: the handler refuses unknown parameters itself.
    """

    needs: Permission
    tag: str
    gives: Mapping[int, Given]
    query: tuple[Parameter, ...] = ()
    body: type[StrictSerializer] | None = None
    raw_body: Mapping[str, JsonSchema] = field(default_factory=dict)
    acts: bool = False
    decides: bool = False
    is_streamed: bool = False
    checks_query: bool = True


def contract(needs: Permission, tag: str, gives: Mapping[int, Given], **more: Any) -> Callable[[Handler], Handler]:
    """Attach a contract to a handler, and let the view carry it out (`ApiView.carry_out`)."""

    def attach(handler: Handler) -> Handler:
        @wraps(handler)
        def carried_out(view: Any, *args: Any, **kwargs: Any) -> Any:
            return view.carry_out(lambda: handler(view, *args, **kwargs))

        carried_out.contract = Contract(needs, tag, gives, **more)  # type: ignore[attr-defined]
        return cast("Handler", carried_out)

    return attach


def contract_of(view: Any, method: str | None) -> Contract | None:
    """Return the contract of the view's handler for an HTTP method; None where it has none."""
    name = (method or "").lower()
    handler = getattr(view, "get" if name == "head" else name, None)
    found = getattr(handler, "contract", None)
    return found if isinstance(found, Contract) else None
