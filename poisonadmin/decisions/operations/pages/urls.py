"""Routes of the pages."""

from django.urls import path

from poisonadmin.decisions.operations.pages import operations, selections

urlpatterns = [
    path("operations/", operations.show_all, name="operations"),
    path("operations/matching/", selections.matching, name="operations-matching"),
    path("operations/select/", selections.select, name="operations-select"),
    path("operations/selections/<int:selection_id>/", selections.selection, name="operations-selection"),
    path("operations/selections/<int:selection_id>/messages/", selections.selected, name="operations-selected"),
    path("operations/selections/<int:selection_id>/duration/", selections.duration, name="operations-duration"),
    path("operations/<int:operation_id>/", operations.show, name="operations-one"),
    path("operations/<int:operation_id>/members.csv", operations.as_csv, name="operations-csv"),
    path("operations/<int:operation_id>/members/<slug:outcome>/", operations.members, name="operations-members"),
    path("operations/<int:operation_id>/<slug:what>/", operations.change, name="operations-change"),
]
