"""Connect: one guided way from a broker, files or programs to a destination; all that it needs is made at its end.

The answers are in the session, the login among them, until everything is made or somebody starts over.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.brokers.domain.broker_names import DEFAULT_TEMPLATE, address_for
from poisonadmin.brokers.domain.brokers import InvalidSource
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.domain.encryption import decrypted, encrypted
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import database_time
from poisonadmin.destinations.queries import list_destinations
from poisonadmin.policies.domain.in_words import in_words
from poisonadmin.policies.domain.resolution import PolicySpec
from poisonadmin.policies.queries import find_policy, policy_index_with
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.sources.commands.broker_checks import request_broker_check
from poisonadmin.sources.commands.setup import Flow, connect, pattern_of, way_back
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose
from poisonadmin.sources.pages.connect_forms import (
    PLACES,
    PROGRAMS,
    BeginForm,
    Origin,
    QueuesForm,
    RetryForm,
    TargetForm,
    http_destination,
    place_of,
)
from poisonadmin.sources.queries import BrokerCheckRow, get_broker_check, get_source
from poisonadmin.web.pages.forms import saved_or_shown
from poisonadmin.web.pages.policy_fields import typed_settings
from poisonadmin.web.pages.views import Section, SidebarEntry, page, require_known

MADE, ANSWERS = "connect", "connect_answers"
STEPS = {
    "place": "Where from",
    "queues": "Queues",
    "message": "A message",
    "target": "Where to",
    "retry": "Retries",
    "begin": "Begin",
}
# Steps in which a worker checks the broker.
_CHECKS = {"queues": BrokerCheckPurpose.QUEUES, "message": BrokerCheckPurpose.PREVIEW}
_MOST_SUGGESTED = 10


class Guide:
    """The way of one session: `answers` by step, `checks` of the broker by step, `made` at its end."""

    def __init__(self, request: HttpRequest, principal: Principal) -> None:
        self.request, self.principal = request, principal
        kept = request.session.get(ANSWERS, "")
        self.answers: dict[str, Any] = json.loads(decrypted([kept], os.environ)[0]) if kept else {}

    @property
    def place(self) -> Origin:
        """The place that was typed, where one was."""
        return Origin(**self.answers["place"])

    @property
    def is_begun(self) -> bool:
        """True when a place was typed."""
        return "place" in self.answers

    def steps(self) -> list[str]:
        """Return the steps of this way: files are no queues, and what goes nowhere yet is not retried."""
        is_broker = not self.is_begun or self.place.kind in BROKERS
        left_out = set() if is_broker else set(_CHECKS)
        if self.answers.get("target", {}).get("target") == "later":
            left_out.add("retry")
        return [name for name in STEPS if name not in left_out]

    def is_open(self, step: str) -> bool:
        """Return whether all before a step is answered; a message is only looked at."""
        names = self.steps()
        return step in names and all(one == "message" or one in self.answers for one in names[: names.index(step)])

    def keep(self, step: str, answer: Any) -> str:
        """Keep an answer; return the URL of the next step. Another place makes a new way of it."""
        if step == "place" and self.is_begun:
            is_same = (self.place.kind, self.place.config) == (answer["kind"], answer["config"])
            self.answers = self.answers if is_same else {}
        self.answers[step] = answer
        self._store()
        names = self.steps()
        return reverse("connect-step", args=[names[names.index(step) + 1]])

    def check(self, step: str) -> None:
        """Have a worker check the broker for a step."""
        place = self.place
        check_id = request_broker_check(
            place.kind,
            place.config_with(self.answers["queues"]) if step == "message" else place.config,
            _CHECKS[step],
            principal=self.principal,
            secrets=place.secrets,
        )
        self.answers["checks"] = self.answers.get("checks", {}) | {step: check_id}
        self._store()

    def seen(self, step: str) -> BrokerCheckRow | None:
        """Return what a worker saw for a step; None where that is gone."""
        check = self.answers.get("checks", {}).get(step)
        try:
            return None if check is None else get_broker_check(check, principal=self.principal)
        except NotFound:
            return None

    def suggested(self) -> list[str]:
        """Return patterns of the addresses at which what was seen would be taken in, else of those that the template
        names; none for all addresses there are."""
        check = self.seen("message")
        messages = check.result.messages if check and check.result else []
        template = self.place.config.get("address", DEFAULT_TEMPLATE)
        found = {address_for(one.queue, one.original_address, template=template) for one in messages}
        if found and len(found) <= _MOST_SUGGESTED:
            return sorted(found)
        try:
            pattern = ANY_WORDS if self.place.kind == PROGRAMS else pattern_of(template)
        except InvalidSource:
            return []
        return [] if pattern == ANY_WORDS else [pattern]

    def flow(self) -> Flow:
        """Return what is to be made."""
        place, target, retry = self.place, self.answers["target"], self.answers.get("retry", {})
        source = destination = None
        if place.kind != PROGRAMS:
            config = place.config_with(self.answers.get("queues", []))
            secrets = place.secrets if place.kind in BROKERS else None
            source = {"kind": place.kind, "config": config, "secrets": secrets}
        if target["target"] == "http":
            destination = http_destination(target)
        elif target["target"] == "back":
            destination = way_back(place.kind, place.config, place.secrets)
        return Flow(
            place.name,
            source,
            destination,
            delivers_to=target["destination"] if target["target"] == "existing" else None,
            patterns=target["patterns"] or (),
            **retry,
        )

    def shown(self, step: str) -> dict[str, Any]:
        """Return what every step shows."""
        return {
            "step": step,
            "steps": [
                (name, STEPS[name], _url(name) if self.is_open(name) else "", bool(_failure(self.seen(name))))
                for name in self.steps()
            ],
            "place": self.place if self.is_begun else None,
            "broker": BROKERS.get(self.place.kind) if self.is_begun else None,
        }

    def _store(self) -> None:
        # With passwords, in a row of the database.
        self.request.session[ANSWERS] = encrypted([json.dumps(self.answers, cls=DjangoJSONEncoder)], os.environ)[0]


def _failure(check: BrokerCheckRow | None) -> str | None:
    return check.error if check else None


def _sent(request: HttpRequest) -> QueryDict | None:
    return request.POST if request.method == "POST" else None


def _url(step: str) -> str:
    return reverse("connect") if step == "place" else reverse("connect-step", args=[step])


@page(
    Permission.CONFIGURE,
    is_for_all=True,
    sidebar=SidebarEntry(Section.FLOWS, 70, "Connect", "plug", "b"),
    topic="use/dashboard#sources-and-destinations",
)
def start(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Show the first step, and keep its answer; a POST with `over` forgets all answers."""
    require_known(request, "of")
    if "over" in request.POST:
        request.session.pop(ANSWERS, None)
        return HttpResponseRedirect(reverse("connect"))
    guide = Guide(request, principal)
    kept = guide.place if guide.is_begun else None
    of = request.GET.get("of") or (place_of(kept.kind) if kept else "broker")
    if of not in PLACES:
        raise NotFound(f"Messages come from {', '.join(PLACES)}.")
    row = kept if kept and place_of(kept.kind) == of else None
    form = PLACES[of][2](_sent(request), row)

    def save() -> str:
        following = guide.keep("place", form.arguments())
        if of == "broker":
            guide.check("queues")
        return following

    def context() -> dict[str, Any]:
        return guide.shown("place") | {"of": of, "places": [(name, *PLACES[name][:2]) for name in PLACES]}

    return saved_or_shown(request, form, save, "sources/connect_place.html", context)


@page(Permission.CONFIGURE, is_for_all=True)
def show_step(request: HttpRequest, principal: Principal, step: str) -> HttpResponseBase:
    """Show a step whose predecessors are answered, and keep its answer; else lead to the first."""
    require_known(request)
    guide = Guide(request, principal)
    if step not in _VIEWS or not guide.is_open(step):
        return HttpResponseRedirect(reverse("connect"))
    if "again" in request.POST and step in _CHECKS:
        guide.check(step)
        return HttpResponseRedirect(_url(step))
    return _VIEWS[step](request, guide)


def _queues(request: HttpRequest, guide: Guide) -> HttpResponse:
    form = QueuesForm(_sent(request), guide.place, initial={"queues": guide.answers.get("queues")})

    def save() -> str:
        following = guide.keep("queues", form.cleaned_data["queues"])
        guide.check("message")
        return following

    def context() -> dict[str, Any]:
        return guide.shown("queues") | {"check": guide.seen("queues")}

    return saved_or_shown(request, form, save, "sources/connect_queues.html", context)


def _message(request: HttpRequest, guide: Guide) -> HttpResponse:
    return render(request, "sources/connect_message.html", guide.shown("message") | {"check": guide.seen("message")})


def _target(request: HttpRequest, guide: Guide) -> HttpResponse:
    kept = guide.answers.get("target") or {"patterns": guide.suggested()}
    names = [row.name for row in list_destinations(principal=guide.principal, limit=500).results]
    form = TargetForm(_sent(request), guide.place, names, kept)
    return saved_or_shown(
        request,
        form,
        lambda: guide.keep("target", form.answer()),
        "sources/connect_target.html",
        lambda: guide.shown("target"),
    )


def _retry(request: HttpRequest, guide: Guide) -> HttpResponse:
    kept = guide.answers.get("retry", {"preset": None, "settings": {}})
    initial = typed_settings(kept["settings"]) | {"preset": kept["preset"]}
    form = RetryForm(_sent(request), initial=initial)

    def save() -> str:
        typed = form.spec()
        return guide.keep("retry", {"preset": typed.preset, "settings": dict(typed.settings)})

    return saved_or_shown(request, form, save, "sources/connect_retry.html", lambda: guide.shown("retry"))


def _begin(request: HttpRequest, guide: Guide) -> HttpResponse:
    flow = guide.flow()
    failure = _failure(guide.seen("message") or guide.seen("queues"))
    form = BeginForm(_sent(request), guide.place, initial={"mode": "off" if failure else "drain"})

    def save() -> str:
        since = database_time().isoformat()
        mode = form.cleaned_data["mode"]
        source = connect(replace(flow, is_enabled=mode not in ("observe", "off")), principal=guide.principal)
        request.session.pop(ANSWERS, None)
        request.session[MADE] = {
            "made": {
                "source_id": source.id if source else None,
                "destination": flow.delivers_to if flow.destination is None else flow.name,
                "patterns": list(flow.patterns),
                "since": since,
                "is_observed": mode == "observe",
            }
        }
        return reverse("connect-made")

    def context() -> dict[str, Any]:
        spec = PolicySpec((*flow.patterns, ANY_WORDS)[0], flow.preset, flow.settings)
        policy = policy_index_with(spec).resolve_pattern(spec.pattern).policy
        return guide.shown("begin") | {
            "flow": flow,
            "queues": guide.answers.get("queues", []),
            "failure": failure,
            "url": guide.answers["target"].get("url"),
            "target": guide.answers["target"]["target"],
            "in_words": in_words(policy),
        }

    return saved_or_shown(request, form, save, "sources/connect_begin.html", context)


_VIEWS: Mapping[str, Callable[[HttpRequest, Guide], HttpResponse]] = {
    "queues": _queues,
    "message": _message,
    "target": _target,
    "retry": _retry,
    "begin": _begin,
}


@page(Permission.CONFIGURE, is_for_all=True)
def show_made(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render what was made, and the first message once there is one."""
    require_known(request)
    made = request.session.get(MADE, {}).get("made")
    if made is None:
        return HttpResponseRedirect(reverse("connect"))
    since = parse_filter({"address": made["patterns"] or [ANY_WORDS], "received_after": [made["since"]]})
    source = made["source_id"] and get_source(made["source_id"], principal=principal)
    # What came from elsewhere at the same addresses is not its first message.
    has_some = not source or source.accepted
    first = list_messages(since, principal=principal, limit=1, ordering="id").results if has_some else []
    context = {
        "source": source,
        "is_observed": made["is_observed"],
        "destination": made["destination"],
        "policies": [found for match in made["patterns"] if (found := find_policy(match))],
        "first": next(iter(first), None),
    }
    return render(request, "sources/connect_made.html", context)


urlpatterns = [
    path("connect/", start, name="connect"),
    path("connect/made/", show_made, name="connect-made"),
    path("connect/<slug:step>/", show_step, name="connect-step"),
]
