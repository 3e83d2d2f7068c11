"""The read-only mode of the installation: `/read-only/`."""

from typing import Any

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.queries.read_only import read_only_mode
from poisonadmin.system.commands.read_only import switch_read_only
from poisonadmin.web.api.contract import StrictSerializer, Text, contract
from poisonadmin.web.api.view import ApiView, route

MODE = {
    "type": "object",
    "properties": {
        "is_on": {"type": "boolean"},
        "reason": {"type": "string", "nullable": True},
        "switched_on_by": {"type": "string", "nullable": True},
        "since": {"type": "string", "format": "date-time", "nullable": True},
    },
    "required": ["is_on", "reason", "switched_on_by", "since"],
}


class ReadOnlyInput(StrictSerializer):
    """`reason`: what everybody reads who is refused."""

    reason = Text(max_length=2000)


class ReadOnlySwitch(ApiView):
    """`/read-only/`."""

    works_in_read_only = True

    @contract(Permission.READ, "system", {200: MODE})
    def get(self) -> Response:
        """Return whether the installation is read-only, and why."""
        return self._shown()

    @contract(Permission.CONFIGURE, "system", {200: MODE}, body=ReadOnlyInput)
    def put(self) -> Response:
        """Make the whole installation read-only: nothing is taken in, decided, configured or delivered.

        What is being delivered ends. Within a second every process follows; requests that change something get 503
        `read_only` with the reason.
        """
        switch_read_only(self.body["reason"], principal=self.principal)
        return self._shown()

    @contract(Permission.CONFIGURE, "system", {200: MODE})
    def delete(self) -> Response:
        """Take changes again, and deliver what has become due."""
        switch_read_only(None, principal=self.principal)
        return self._shown()

    def _shown(self) -> Response:
        mode = read_only_mode()
        shown: dict[str, Any] = vars(mode) if mode else dict.fromkeys(("reason", "switched_on_by", "since"))
        return Response({"is_on": mode is not None, **shown})


urlpatterns = [route("read-only/", ReadOnlySwitch, name="api-read-only")]
