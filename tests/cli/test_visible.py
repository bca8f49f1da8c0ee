"""Whatever users write into labels and messages, no control character of theirs is printed."""

import io
import json
import sys
import unicodedata
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from gatelog.shell.screen import Screen
from gatelog.shell.visible import Visible, visible
from projector import tables
from projector.storage.database import writer
from tests.cli.conftest import Ran
from tests.support.toy import Toy

Gatelog = Callable[..., Ran]
EVIL = "x\x1b]0;owned\x07\x1b[8m\x9b31m\x7f\u202ey\r"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TEXTS = st.text(st.characters(max_codepoint=0x2070))


def controls(text: str) -> set[str]:
    """Characters of a text that a terminal may act on."""
    return {c for c in text if unicodedata.category(c) == "Cc" or c in BIDI} - {"\n", "\t"}


def test_every_way_to_print_shows_pictures(gatelog: Gatelog, busy_db: tuple[str, Toy]) -> None:
    url, _ = busy_db
    engine = writer(url)
    with engine.begin() as connection:
        named = sa.update(tables.groups).where(tables.groups.c.name == "a")
        connection.execute(named.values(queue=EVIL, message=EVIL, reason=EVIL))
        connection.execute(sa.update(tables.history).values(message=EVIL))
        connection.execute(sa.update(tables.waits).values(message=EVIL))
    engine.dispose()
    where = ("--db", url)
    for command in (
        *(("sql", "SELECT queue FROM groups"), ("sql", "SELECT queue FROM groups", "--json")),
        *(("sql", "SELECT queue FROM groups", "-o", "yaml"), ("list",), ("list", "-o", "json")),
        *(("history", "ns/a"), ("why", "ns/a"), ("why", "ns/a", "--json"), ("why", f"ns/{EVIL}")),
    ):
        more = () if command[0] == "sql" else ("--cluster", "test")
        _, out, err = gatelog(*command, *where, *more)
        assert not controls(out + err), (command, controls(out + err))
        assert "owned" in out + err or command[0] in ("list", "history"), command
    _, out, _ = gatelog("sql", "SELECT queue FROM groups WHERE name = 'a'", "--json", *where)
    assert json.loads(out) == [{"queue": EVIL}], "a document says exactly what there is"


@given(TEXTS)
def test_nothing_of_others_passes(text: str) -> None:
    out = io.StringIO()
    Visible(out).write(text)
    Visible(out).writelines([text])
    assert not controls(out.getvalue())
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize("folded", [False, True])
def test_colours_of_ours_stay_and_those_of_others_do_not(folded: bool) -> None:
    out = io.StringIO()
    screen = Screen(file=out, force_terminal=True, color_system="truecolor", highlight=False)
    if folded:
        grid = Table()
        grid.add_row(EVIL, style="red")
        screen.print(grid, style="red")
    else:
        screen.print(EVIL, style="red", markup=False)
    text = out.getvalue()
    assert "\x1b[31m" in text, "ours"
    assert "\x1b]0;" not in text and "\x1b[8m" not in text and "\x07" not in text
    assert "\u241b]0;" in text


def test_what_is_printable_passes_as_it_is() -> None:
    """Texts of such characters alone are not looked at again, so none may be one that is shown."""
    printable = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if c.isprintable())
    assert not controls(printable)
    assert visible(f"{printable}\n") == f"{printable}\n"
    assert visible(f"{printable}\x1b") == f"{printable}␛"
