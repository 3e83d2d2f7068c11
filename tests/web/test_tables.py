"""Tables of pages are declared, their parts refresh at known paces, and no template makes its own of either."""

import re
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.template import Context, Template, TemplateSyntaxError

TEMPLATES = settings.BASE_DIR / "templates"
# Their columns are what the report is asked for.
OF_ANY_COLUMNS = {"reports/_section.html", "reports/_preview.html"}
ROWS = [SimpleNamespace(id=7, name="<b>", size=1), SimpleNamespace(id=8, name="x", size=2)]
TABLE = """{% table "Things" for row in rows kind="wide" has_keys=True row_id=row.id changed=changed is_swap=is_swap %}
  {% column "Tick all" "tick" when=may_decide %}{% tick "id" row.id "Tick thing" row.id %}
  {% column "Name and more" "wild tight" label="Name" %}
    {{ row.name }} {{ forloop.counter }}{% if forloop.last %}!{% endif %}
  {% column heading "number" %}{{ row.size }}
  {% column "Change" is_hidden=True %}<button>Go</button>
{% endtable %}"""


def drawn(template: str, **values: object) -> str:
    """Return what the template gives, without white space between tags."""
    return re.sub(r">\s+|\s+<", lambda found: found[0].strip(), Template(template).render(Context(values)))


def test_a_column_is_declared_once_and_stands_in_the_head_in_each_row_and_on_small_screens() -> None:
    text = drawn(TABLE, rows=ROWS, heading="Size", may_decide=True, changed={8})
    assert '<div class="table-wrap" tabindex="0" role="region" aria-label="Things">' in text
    assert '<table class="table stacks wide">' in text
    assert (
        '<th class="tick"><input type="checkbox" class="form-check-input" data-tick-all aria-label="Tick all">' in text
    )
    assert '<th scope="col" class="tight">Name and more</th><th scope="col" class="number">Size</th>' in text
    assert '<th scope="col"><span class="visually-hidden">Change</span></th>' in text
    assert '<tr id="m-7" data-row><td class="tick"><input' in text
    assert 'name="id" value="7" aria-label="Tick thing 7"' in text
    assert (
        '<td class="wild tight" data-label="Name">&lt;b&gt; 1</td><td class="number" data-label="Size">1</td>' in text
    )
    assert '<tr id="m-8" data-row class="changed">' in text
    assert '<td class="wild tight" data-label="Name">x 2!</td>' in text
    assert text.count("<td><button>Go</button></td>") == 2


def test_a_column_is_left_out_for_readers_that_it_is_not_for() -> None:
    text = drawn(TABLE, rows=ROWS, heading="Size", may_decide=False)
    assert "checkbox" not in text
    assert text.count("<th") - text.count("<thead") == 3
    assert text.count("<td") == 6


def test_changed_rows_come_alone_and_replace_those_on_the_page() -> None:
    text = drawn(TABLE, rows=ROWS, heading="Size", is_swap=True)
    assert text.startswith('<template><tr id="m-7" data-row hx-swap-oob="true"><td')
    assert text.count("</tr></template>") == 2
    assert "<table" not in text


def test_rows_are_unpacked_and_the_names_are_not_left_behind() -> None:
    template = '{% table "T" for a, b in pairs %}{% column "A" %}{{ a }}{{ b }}{% endtable %}{{ a }}'
    text = drawn(template, pairs=[(1, 2), (3, 4)], a="outside")
    assert '<td data-label="A">12</td>' in text
    assert text.endswith("outside")


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ('{% table "T" %}{% endtable %}', "expected a label"),
        ('{% table "T" for a in b colour="red" %}{% column "A" %}{% endtable %}', "no options of it"),
        ('{% table "T" for a in b %}{% column "A" "wild" "tight" %}{% endtable %}', "no options of it"),
        ('{% table "T" for a in b %}text{% column "A" %}{% endtable %}', "nothing stands before"),
    ],
)
def test_a_mistake_in_a_declaration_is_named(template: str, problem: str) -> None:
    with pytest.raises(TemplateSyntaxError, match=problem):
        Template(template)


def test_a_part_asks_for_its_content_or_for_itself() -> None:
    text = drawn('<p {% poll url "run" %}>', url="/a/?b=1&c=2")
    assert text.startswith('<p hx-get="/a/?b=1&amp;c=2" hx-trigger="every 2s" data-live')
    assert ' hx-select="#p" hx-target="this" hx-swap="outerHTML" data-live' in drawn(
        '<p {% poll "/a/" "list" replaces="#p" %}>'
    )


def test_no_template_makes_a_table_or_a_pace_of_its_own() -> None:
    for path in TEMPLATES.rglob("*.html"):
        name, text = str(path.relative_to(TEMPLATES)), path.read_text(encoding="utf-8")
        if not name.startswith("web/"):
            assert "data-label" not in text, name
            assert 'hx-trigger="every' not in text, name
            assert "table-wrap" not in text or name in OF_ANY_COLUMNS, name
