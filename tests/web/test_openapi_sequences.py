"""Random sequences of requests, in which one asks for what another has made, as each role.

No answer is a 5xx, and each one has a status, a media type and a shape that the document names. Nothing of what an
outsider sends reaches what is beyond his addresses.
"""

from typing import Any

import pytest
from django.db import connection
from schemathesis import Response
from schemathesis.generation.stateful.state_machine import StepInput, StepOutput

from tests.fixtures.api import ROLES, caller_of
from tests.web.test_openapi import CHECKED, KNOWN_NAMES, generated, kept_connection, point_at_something, schema

STEPS = 25
SEQUENCES = 3
# They need leave to read, and nothing more.
# They change no message: what they begin reads.
READING_POSTS = (
    *("/selections/", "/policies/preview/", "/comparisons/", "/searches/", "/reports/", "/saved-reports/"),
    "/saved-reports/{saved_report_id}/run/",
)
_REST = """
SELECT (SELECT json_agg((m.id, m.state, m.attempt_number, m.due_at) ORDER BY m.id) FROM message AS m
        WHERE m.id = ANY(%(messages)s))::text,
       (SELECT json_agg(d ORDER BY d.id) FROM destination AS d WHERE d.name = 'shop')::text,
       (SELECT json_agg(p ORDER BY p.id) FROM policy AS p WHERE p.id = %(policy)s)::text,
       (SELECT json_agg(r ORDER BY r.id) FROM restart_job AS r WHERE r.id = %(restart_job)s)::text,
       (SELECT json_agg(r ORDER BY r.id) FROM alert_rule AS r WHERE r.id = %(alert_rule)s)::text
"""

__all__ = ["kept_connection"]


def untouched(ids: dict[str, Any]) -> tuple[str, ...]:
    """Return what is beyond an outsider's addresses, as text."""
    messages = [ids[name] for name in ("waiting", "delivered", "undecided", "given_up", "moved")]
    with connection.cursor() as cursor:
        cursor.execute(_REST, {**ids, "messages": messages})
        return tuple(cursor.fetchone())


@pytest.mark.usefixtures("kept_connection")
@pytest.mark.parametrize("sequences", [SEQUENCES, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("role", [*ROLES])
def test_no_sequence_of_requests_breaks_the_api(role: str, sequences: int, one_of_each: dict[str, Any]) -> None:
    caller = caller_of(role)
    answers: dict[str, set[int]] = {}
    followed: set[int] = set()
    before = untouched(one_of_each)

    class Sequence(schema.as_state_machine()):  # type: ignore[misc]
        """Sends as the role; checks each answer."""

        def step(self, input: StepInput) -> StepOutput:  # noqa: A002  (the name of the class above)
            if not input.is_applied:
                point_at_something(input.case, one_of_each)
            elif input.case.path_parameters.get("name") == role:
                # Who revokes his own token or closes his own account gets 401 from then on.
                input.case.path_parameters["name"] = KNOWN_NAMES["accounts"]
            made = super().step(input)
            if input.is_applied:
                followed.add(made.response.status_code)
            return made

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:  # noqa: ARG002
            return {"headers": {"Authorization": f"Bearer {caller.token}"}}

        def validate_response(self, response: Response, case: Any, **_: Any) -> None:
            name = "reading POST" if case.method == "POST" and case.path.endswith(READING_POSTS) else case.method
            answers.setdefault(name, set()).add(response.status_code)
            case.validate_response(response, checks=CHECKED)

    Sequence.run(settings=generated(sequences, stateful_step_count=STEPS))
    given = {status for statuses in answers.values() for status in statuses}
    assert 401 not in given
    if role == "viewer":
        assert not {status for status in answers["POST"] if status < 300}
    if role in ("admin", "operator"):
        assert (answers["POST"] | answers.get("reading POST", set())) & {201, 202}
        assert followed & {200, 201, 202, 204}, "no request was about what another had made"
    if role in ("viewer", "outsider"):
        assert untouched(one_of_each) == before
