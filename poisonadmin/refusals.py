"""What Django refuses before any view is asked is answered as the side it was meant for answers: problem or page."""

from django.http import HttpRequest, HttpResponse

from poisonadmin.api.problems import plain_problem
from poisonadmin.dashboard import errors


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that cannot be one, such as one for a host that this is not."""
    if request.path.startswith("/api/"):
        detail = "The request was refused: its Host header, or something else in it, is not acceptable."
        return plain_problem(request, status=400, code="bad_request", detail=detail)
    return errors.bad_request(request, exception)
