"""All routes: probes at the root, the API under /api/v1/, the dashboard under the rest."""

from django.urls import include, path

urlpatterns = [
    path("", include("poisonadmin.api.probes")),
    path("api/v1/", include("poisonadmin.api.urls")),
    path("accounts/", include("allauth.account.urls")),
    path("", include("poisonadmin.dashboard.urls")),
]

handler400 = "poisonadmin.refusals.bad_request"
handler403 = "poisonadmin.dashboard.errors.forbidden"
handler404 = "poisonadmin.dashboard.errors.not_found"
handler500 = "poisonadmin.dashboard.errors.server_error"
