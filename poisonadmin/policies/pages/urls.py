"""Routes of the pages."""

from django.urls import path

from poisonadmin.policies.pages import policies, simulator

urlpatterns = [
    path("policies/", policies.show_all, name="policies"),
    path("policies/new/", policies.edit, name="policies-new"),
    path("policies/simulator/", simulator.simulator, name="policies-simulator"),
    path("policies/preview/", simulator.show, name="policies-preview"),
    path("policies/<int:policy_id>/", policies.edit, name="policies-one"),
    path("policies/<int:policy_id>/delete/", policies.delete, name="policies-delete"),
]
