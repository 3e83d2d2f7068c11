"""Saved views on the page Triage: saving the list that is shown, and removing one."""

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.search.views import commands
from poisonadmin.web.pages.views import back_to, page


@require_POST
@page(topic="use/dashboard#triage")
def save(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Save the list that is shown under the name that was typed."""
    name, query = request.POST.get("name", "").strip(), request.POST.get("query", "")
    try:
        commands.save_view(name, query, is_shared="is_shared" in request.POST, principal=principal)
    except PoisonAdminError as error:
        notes.error(request, f"The view was not saved: {error.detail}")
    else:
        notes.success(request, f"The view {name} is saved.")
    return HttpResponseRedirect(back_to(request, reverse("triage")))


@require_POST
@page(topic="use/dashboard#triage")
def remove(request: HttpRequest, principal: Principal, view_id: int) -> HttpResponseBase:
    """Remove a view."""
    commands.remove_view(view_id, principal=principal)
    notes.success(request, "The view is removed.")
    return HttpResponseRedirect(back_to(request, reverse("triage")))


urlpatterns = [
    path("views/save/", save, name="views-save"),
    path("views/<int:view_id>/remove/", remove, name="views-remove"),
]
