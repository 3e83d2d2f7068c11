"""Routes of the API."""

from poisonadmin.sources.api import broker_checks, sources
from poisonadmin.web.api.routes import route

urlpatterns = [
    route("sources/", sources.SourceList, name="api-sources"),
    route("sources/rejected/", sources.BatchRejected, name="api-batch-rejected"),
    route("sources/rejected/<id:rejected_id>/raw/", sources.RejectedRaw, name="api-rejected-raw"),
    route("sources/test/", broker_checks.SourceTest, name="api-source-try"),
    route("sources/looks/<id:look_id>/", broker_checks.BrokerCheckOne, name="api-look"),
    route("sources/<id:source_id>/", sources.SourceOne, name="api-source"),
    route("sources/<id:source_id>/files/", sources.SourceFiles, name="api-source-files"),
    route("sources/<id:source_id>/ingest/", sources.SourceIngest, name="api-source-ingest"),
    route("sources/<id:source_id>/enable/", sources.SourceEnable, name="api-source-enable"),
    route("sources/<id:source_id>/disable/", sources.SourceDisable, name="api-source-disable"),
    route("sources/<id:source_id>/test/", broker_checks.SourceConnection, name="api-source-test"),
    route("sources/<id:source_id>/preview/", broker_checks.SourcePreview, name="api-source-preview"),
    route("sources/<id:source_id>/queues/", broker_checks.SourceQueues, name="api-source-queues"),
    route("sources/<id:source_id>/rejected/", sources.SourceRejected, name="api-source-rejected"),
]
