"""Deployments of consumers."""

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.deployments.commands import report_deployment
from poisonadmin.deployments.domain.consumers import MAX_CONSUMER_CHARS
from poisonadmin.deployments.domain.versions import MAX_VERSION_CHARS
from poisonadmin.deployments.queries import DeploymentRow, list_deployments
from poisonadmin.web.api.contract import PAGE, Moment, Paged, StrictSerializer, Text, contract, text
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

DEPLOYMENT = Shape("Deployment", DeploymentRow)


class DeploymentInput(StrictSerializer):
    """`consumer`: the destination that delivers to it, or the address or pattern that it consumes. `at`: since when,
    now where it is left out."""

    consumer = Text(max_length=MAX_CONSUMER_CHARS)
    version = Text(max_length=MAX_VERSION_CHARS)
    at = Moment(required=False)


class DeploymentList(ApiView):
    """`/deployments/`."""

    @contract(
        Permission.READ,
        "deployments",
        {200: Paged(DEPLOYMENT)},
        query=(text("consumer", "Only deployments of this consumer, or of what consumes its addresses."), *PAGE),
    )
    def get(self) -> Response:
        """List deployments, the latest first."""
        return self.listed(DEPLOYMENT, list_deployments, consumer=self.query["consumer"])

    @contract(
        Permission.INGEST,
        "deployments",
        {201: DEPLOYMENT, 200: DEPLOYMENT},
        body=DeploymentInput,
        acts=True,
        or_needs=Permission.CONFIGURE,
    )
    def post(self) -> Response:
        """Report that a version of a consumer is in use, now or since a time that has passed.

        200 where it is known already: the same consumer, version and time; without a time, the consumer's latest
        version.
        """
        body = self.body
        row, is_new = report_deployment(body["consumer"], body["version"], principal=self.principal, at=body.get("at"))
        return Response(DEPLOYMENT.render(row), status=201 if is_new else 200)


urlpatterns = [route("deployments/", DeploymentList, name="api-deployments")]
