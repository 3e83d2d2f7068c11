"""The page that makes the installation read-only, and ends that."""

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.system.commands.read_only import switch_read_only
from poisonadmin.web.pages.views import MAX_REASON_CHARS, NO_REASON, led_to, page, reason_of


@page(Permission.CONFIGURE, is_for_all=True, topic="operate/production#read-only-mode", works_in_read_only=True)
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the switch, or switch."""
    context = {"most": MAX_REASON_CHARS}
    if request.method == "POST":
        is_on, reason = request.POST.get("switch") == "on", reason_of(request)
        if not is_on or reason:
            switch_read_only(reason if is_on else None, principal=principal)
            if not is_on:
                notes.success(request, "PoisonAdmin takes changes again.")
            return led_to(request, reverse("nodes"))
        return render(request, "system/read_only.html", {**context, "error": NO_REASON}, status=400)
    return render(request, "system/read_only.html", context)


urlpatterns = [path("read-only/", show, name="nodes-read-only")]
