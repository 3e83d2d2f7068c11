"""Routes of the pages."""

from django.urls import path

from poisonadmin.rules.pages import rules

urlpatterns = [
    path("rules/", rules.show_all, name="rules"),
    path("rules/new/before/", rules.edit, {"stage": "before"}, name="rules-new"),
    path("rules/new/after/", rules.edit, {"stage": "after"}, name="rules-new-after"),
    path("rules/<int:rule_id>/", rules.show, name="rules-one"),
    path("rules/<int:rule_id>/edit/", rules.edit, name="rules-edit"),
    path("rules/<int:rule_id>/enable/", rules.switch, {"change": "enable"}, name="rules-enable"),
    path("rules/<int:rule_id>/disable/", rules.switch, {"change": "disable"}, name="rules-disable"),
    path("rules/<int:rule_id>/dry_run/", rules.dry_run, name="rules-dry_run"),
    path("rules/<int:rule_id>/move/", rules.move, name="rules-move"),
    path("rules/<int:rule_id>/delete/", rules.delete, name="rules-delete"),
]
