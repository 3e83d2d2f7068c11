"""Routes of the pages."""

from django.urls import path

from poisonadmin.sources.pages import broker_checks, sources
from poisonadmin.sources.pages.forms import BrokerSourceForm, DirectoryForm

urlpatterns = [
    path("sources/", sources.show_all, name="sources"),
    path("sources/broker/", sources.create, {"of": BrokerSourceForm}, name="sources-new"),
    path("sources/directory/", sources.create, {"of": DirectoryForm}, name="sources-directory"),
    path("sources/broker/check/", broker_checks.of_form, name="sources-try"),
    path("sources/checks/<int:check_id>/", broker_checks.answer, name="sources-answer"),
    path("sources/<int:source_id>/", sources.show, name="sources-one"),
    path("sources/<int:source_id>/edit/", sources.edit, name="sources-edit"),
    path("sources/<int:source_id>/check/", broker_checks.of_source, name="sources-check"),
    path("sources/<int:source_id>/now/", sources.check_now, name="sources-now"),
    path("sources/<int:source_id>/enable/", sources.switch, {"change": "enable"}, name="sources-enable"),
    path("sources/<int:source_id>/disable/", sources.switch, {"change": "disable"}, name="sources-disable"),
    path("sources/<int:source_id>/delete/", sources.delete, name="sources-delete"),
    path("sources/<int:source_id>/rejected/", sources.rejected, name="sources-rejected"),
    path("sources/batch/rejected/", sources.rejected, name="sources-batch"),
    path("sources/rejected/<int:rejected_id>/", sources.rejected_line, name="sources-line"),
]
