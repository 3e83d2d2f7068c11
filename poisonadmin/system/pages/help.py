"""Help: the page of the documentation that belongs to the page one is on, in a panel or as a page of its own."""

from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import path

from poisonadmin.core.domain.access import Principal
from poisonadmin.web.pages.documentation import FOLDERS, documents
from poisonadmin.web.pages.views import dialog, page


@page(topic="use/dashboard")
def show(request: HttpRequest, _: Principal, folder: str = "use", name: str = "dashboard") -> HttpResponseBase:
    """Render a document: the panel to htmx, else a page."""
    document = documents().get(f"{folder}/{name}")
    if document is None:
        raise Http404
    listed = [
        (words, [one for one in documents().values() if one.name.startswith(of)]) for of, words in FOLDERS.items()
    ]
    context = {"document": document, "folders": listed}
    return dialog(request, "system/help.html", f"Help: {document.headings[0].title}", context)


urlpatterns = [
    path("help/", show, name="help"),
    path("help/<slug:folder>/<slug:name>/", show, name="help-page"),
]
