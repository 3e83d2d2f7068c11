"""Saved views: kept under a name, shared or not, and above the page Triage."""

import re

import pytest
from django.test import Client

from poisonadmin.core.commands import configured
from poisonadmin.core.commands.authentication import authenticate, principal_of_user
from poisonadmin.core.domain.access import NotAllowed, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.search.views.commands import InvalidSavedView, remove_view, save_view
from poisonadmin.search.views.queries import get_saved_view, list_saved_views
from poisonadmin.store.models.access import Audit
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import Caller, make_user
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db

MARA = principal("mara", Role.OPERATOR)
KIM = principal("kim", Role.VIEWER)
LIMITED = principal("lou", Role.OPERATOR, ["orders.#"])
ADMIN = principal("root", Role.ADMIN)
QUERY = "state=NDLV&address=orders.%23&group_by=failure"


def names(of: object) -> list[str]:
    return [row.name for row in list_saved_views(principal=of)]  # type: ignore[arg-type]


def test_a_view_is_its_owners_until_it_is_shared() -> None:
    view = save_view("mine", QUERY, is_shared=False, principal=MARA)
    assert (names(MARA), names(KIM)) == (["mine"], [])
    with pytest.raises(NotFound):
        get_saved_view(view, principal=KIM)
    assert save_view("mine", "?state=FAIL&cursor=x", is_shared=True, principal=MARA) == view
    found = get_saved_view(view, principal=KIM)
    assert (found.query, found.version, found.owner) == ("state=FAIL", 2, "mara")
    assert names(LIMITED) == []
    with pytest.raises(NotFound):
        get_saved_view(view, principal=LIMITED)


def test_a_view_is_of_the_person_and_a_token_of_fewer_addresses_keeps_its_own() -> None:
    user = make_user("rita", Role.OPERATOR, ["orders.#"])
    session = principal_of_user(user)
    assert session is not None
    limits: dict[str, list[str]] = {"script": [], "narrow": ["orders.eu"]}
    tokens = [create_token(user, name, scopes=["read"], patterns=of, by="rita").text for name, of in limits.items()]
    script, narrow = (found[1] for text in tokens if (found := authenticate(text)))
    save_view("mine", QUERY, is_shared=False, principal=session)
    saved = save_view("by a script", QUERY, is_shared=False, principal=script)
    save_view("of one address", QUERY, is_shared=False, principal=narrow)
    assert [names(one) for one in (session, script, narrow)] == [*[["by a script", "mine"]] * 2, ["of one address"]]
    assert save_view("by a script", QUERY, is_shared=False, principal=session) == saved
    remove_view(saved, principal=session)
    assert names(script) == ["mine"]


def test_who_removes_a_view() -> None:
    view = save_view("ours", QUERY, is_shared=True, principal=MARA)
    with pytest.raises(NotAllowed):
        remove_view(view, principal=KIM)
    remove_view(view, principal=ADMIN)
    assert names(MARA) == []
    own = save_view("own", QUERY, is_shared=False, principal=KIM)
    with pytest.raises(NotFound):
        remove_view(own, principal=ADMIN)
    assert list(Audit.objects.order_by("id").values_list("action", flat=True))[-3:] == [
        "saved_view.saved",
        "saved_view.removed",
        "saved_view.saved",
    ]


def test_what_is_no_list_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidFilter):
        save_view("v", "sate=NDLV", is_shared=False, principal=MARA)
    for name, query in (("", QUERY), ("x" * 61, QUERY), ("v", "q=" + "x" * 4000), ("v", "&".join(["q=x"] * 201))):
        with pytest.raises(InvalidSavedView):
            save_view(name, query, is_shared=False, principal=MARA)
    with pytest.raises(NotAllowed):
        save_view("v", QUERY, is_shared=True, principal=KIM)
    monkeypatch.setattr(configured, "MAX_OWNED", 1)
    save_view("v", QUERY, is_shared=False, principal=MARA)
    with pytest.raises(InvalidSavedView, match="remove one"):
        save_view("w", QUERY, is_shared=False, principal=MARA)
    assert names(MARA) == ["v"]


def test_a_view_is_saved_opened_and_removed_above_the_list(operator_browser: Client) -> None:
    back = "/triage/?state=NDLV&group_by=address"
    fields = {"name": "By place", "query": "?state=NDLV&group_by=address", "back": back, "is_shared": "on"}
    said = html_of(operator_browser.post("/views/save/", fields, follow=True))
    assert "The view By place is saved." in said
    assert f'href="{back.replace("&", "&amp;")}" aria-current="true"' in said
    [view] = list_saved_views(principal=ADMIN)
    assert "was not saved" in html_of(operator_browser.post("/views/save/", fields | {"name": ""}, follow=True))
    gone = html_of(operator_browser.post(f"/views/{view.id}/remove/", {"back": back}, follow=True))
    assert ">By place<" not in gone


def test_one_view_is_lit_of_those_with_one_query(operator_browser: Client) -> None:
    def lit() -> list[str]:
        [bar] = re.findall(
            r'<nav class="tabs" aria-label="Views">.*?</nav>',
            html_of(operator_browser.get("/triage/?state=NDLV")),
            re.DOTALL,
        )
        return re.findall(r'aria-current="true"[^>]*>([^<]*)<', bar)

    assert lit() == ["Messages"]
    save_view("of a colleague", "state=NDLV", is_shared=True, principal=principal("kim", Role.OPERATOR))
    assert lit() == ["Messages"]
    operator_browser.post("/views/save/", {"name": "mine", "query": "state=NDLV"})
    assert lit() == ["mine"]


def test_views_by_api(operator: Caller) -> None:
    made = operator.post("views/", {"name": "late", "query": "state=NDLV&q=failed:24h"})
    assert made.status_code == 201
    assert made.json()["query"] == "state=NDLV&q=failed%3A24h"
    assert [one["name"] for one in operator.get("views/").json()["results"]] == ["late"]
    assert operator.post("views/", {"name": "late", "query": "nothing=1"}).status_code == 400
    path = f"views/{made.json()['id']}/"
    assert operator.ask("DELETE", path).status_code == 204
    assert operator.get(path).status_code == 404
