"""Pages speak the field's words; nothing that the code calls by another name is left without one."""

import re

from django.conf import settings
from django.template import Context, Template
from django.template.loader import get_template

from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.messages.domain.explanations import EXPLANATIONS
from poisonadmin.messages.domain.outcomes import MemberOutcome, Outcome
from poisonadmin.messages.domain.states import Event, Reason, State, sources
from poisonadmin.policies.domain.resolution import FIELDS
from poisonadmin.policies.domain.settings import SECTIONS as SETTINGS
from poisonadmin.policies.pages.form import PolicyForm
from poisonadmin.store.models.claim import NodeEnd
from poisonadmin.web.pages import words
from poisonadmin.web.pages.templatetags.pages import paths_of
from poisonadmin.web.pages.views import sections
from tests.fixtures.pages import page_routes

TEMPLATES = sorted((settings.BASE_DIR / "templates").rglob("*.html"))


def test_every_state_reason_and_event_has_words() -> None:
    assert set(words.STATES) == set(State)
    assert set(words.REASONS) == set(Reason)
    assert set(words.EVENTS) == set(Event)
    assert set(words.OUTCOMES) == set(Outcome)
    assert set(words.NODE_ENDS) == set(NodeEnd)
    assert set(words.MEMBER_OUTCOMES) == set(MemberOutcome)


def test_every_state_reason_outcome_and_word_of_the_ledger_is_explained() -> None:
    known = {"state": State, "reason": Reason, "outcome": Outcome, "ledger": MemberOutcome}
    assert {kind: set(texts) for kind, texts in EXPLANATIONS.items()} == {
        kind: set(codes) for kind, codes in known.items()
    }
    text = Template('<a {% explains "state" "NDLV" %}>').render(Context())
    assert text == '<a data-explained title="It is stopped. Nothing happens until somebody decides.">'


def test_no_page_speaks_of_claims_leases_or_settling() -> None:
    for path in TEMPLATES:
        assert not re.search(r"\b(claim|lease|settle|shard)\w*", path.read_text(encoding="utf-8"), re.IGNORECASE), path
    shown = [*words.STATES.values(), *words.REASONS.values(), *words.EVENTS.values(), *words.COUNTS.values()]
    assert not [text for text in shown if re.search(r"claim|lease|settle", text, re.IGNORECASE) and text != "released"]


def test_every_setting_of_a_policy_is_shown_once_and_can_be_edited() -> None:
    shown = [name for section in SETTINGS.values() for name in section]
    edited = [name.removeprefix("setting.") for name in PolicyForm().fields if name.startswith("setting.")]
    assert sorted(shown) == sorted(FIELDS) == sorted(edited)


def test_the_side_bar_leads_to_routes_that_exist_by_letters_that_differ() -> None:
    entries = [entry for _, entries in sections() for entry in entries]
    assert len(entries) > 14
    assert {entry.route for entry in entries} <= {pattern.name for pattern in page_routes()}
    assert len({entry.key for entry in entries}) == len(entries)


def test_every_icon_is_one_of_the_icon_package() -> None:
    """Needs the front-end files: `make assets`."""
    texts = "".join(path.read_text(encoding="utf-8") for path in TEMPLATES)
    named = set(re.findall(r'{% (?:icon|nothing) "([^"]+)"', texts))
    named |= {entry.icon for _, entries in sections() for entry in entries}
    named |= {action.icon for action in ACTIONS.values()}
    assert len(named) > 30
    assert [name for name in sorted(named) if not paths_of(name)] == []


def test_every_action_is_one_that_some_state_allows() -> None:
    assert all(sources(action.event) for action in ACTIONS.values())


def test_every_template_compiles() -> None:
    for path in TEMPLATES:
        get_template(str(path.relative_to(settings.BASE_DIR / "templates")))
