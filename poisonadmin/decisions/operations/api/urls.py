"""Routes of the API."""

from poisonadmin.decisions.operations.api import operations, selections
from poisonadmin.web.api.routes import route

urlpatterns = [
    route("selections/", selections.SelectionList, name="api-selections"),
    route("selections/<id:selection_id>/", selections.SelectionOne, name="api-selection"),
    route("selections/<id:selection_id>/messages/", selections.SelectionMembers, name="api-selection-messages"),
    route("selections/<id:selection_id>/preview/", selections.SelectionPreview, name="api-selection-preview"),
    route("operations/", operations.OperationList, name="api-operations"),
    route("operations/<id:operation_id>/", operations.OperationOne, name="api-operation"),
    route("operations/<id:operation_id>/members/", operations.OperationMembers, name="api-operation-members"),
    route("operations/<id:operation_id>/members.csv", operations.OperationLedger, name="api-operation-ledger"),
    route("operations/<id:operation_id>/pause/", operations.OperationPause, name="api-operation-pause"),
    route("operations/<id:operation_id>/resume/", operations.OperationResume, name="api-operation-resume"),
    route("operations/<id:operation_id>/cancel/", operations.OperationCancel, name="api-operation-cancel"),
    route("operations/<id:operation_id>/sign-offs/", operations.OperationSignOff, name="api-operation-sign-offs"),
]
