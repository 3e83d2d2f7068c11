"""The routes of reports."""

from django.urls import path

from poisonadmin.reports.pages import summary, views

urlpatterns = [
    path("reports/", views.show_all, name="reports"),
    path("reports/new/", views.ask, name="reports-new"),
    path("reports/summary/", summary.show, name="reports-summary"),
    path("reports/<int:report_id>/", views.show, name="reports-one"),
    path("reports/<int:report_id>/download/", views.as_file, name="reports-download"),
    path("reports/<int:report_id>/cancel/", views.cancel, name="reports-cancel"),
    path("reports/saved/<int:saved_report_id>/run/", views.run_saved, name="reports-run"),
    path("reports/saved/<int:saved_report_id>/remove/", views.remove_saved, name="reports-remove"),
]
