"""Routes of the pages."""

from django.urls import path

from poisonadmin.destinations.pages import destinations
from poisonadmin.destinations.pages.forms import BrokerDestinationForm, HandlerForm, HttpForm

urlpatterns = [
    path("destinations/", destinations.show_all, name="destinations"),
    path("destinations/one/", destinations.show, name="destinations-one"),
    path("destinations/enable/", destinations.switch, {"enabled": True}, name="destinations-enable"),
    path("destinations/disable/", destinations.switch, {"enabled": False}, name="destinations-disable"),
    path("destinations/delete/", destinations.delete, name="destinations-delete"),
    path("destinations/http/", destinations.edit, {"of": HttpForm}, name="destinations-http"),
    path("destinations/handler/", destinations.edit, {"of": HandlerForm}, name="destinations-handler"),
    path("destinations/broker/", destinations.edit, {"of": BrokerDestinationForm}, name="destinations-broker"),
]
