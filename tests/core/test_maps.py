"""Maps: a package's docstring lists what is in it; what it lists is there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("podgroup", "runtime", "ingest", "projector", "actuator", "gatelog", "simcluster")
_ENTRY = re.compile(r"^    ([a-z_]\w*(?:, [a-z_]\w*)*)(?:  +\S.*)?$", re.MULTILINE)
_UNREAD = re.compile(r"^[a-z_]\w*(?:, [a-z_]\w*)*  +\S", re.MULTILINE)
"""An entry without its indent: the formatter takes it where the map ends the docstring."""


def packages() -> Iterator[Path]:
    for root in PACKAGES:
        yield from (init.parent for init in (ROOT / root).rglob("__init__.py"))


@pytest.mark.parametrize("place", list(packages()), ids=lambda place: str(place.relative_to(ROOT)))
def test_a_map_lists_what_is_there(place: Path) -> None:
    """An entry is an indented line: names of modules or packages, two spaces, what they hold."""
    text = ast.get_docstring(ast.parse((place / "__init__.py").read_text())) or ""
    assert len(text) > len("Package."), f"{place}: say in a sentence what is in it, and list it"
    assert not _UNREAD.search(text), f"{place}/__init__.py: say the invariant after the map"
    listed = [name for entry in _ENTRY.findall(text) for name in entry.split(", ")]
    missing = [n for n in listed if not (place / n).is_dir() and not (place / f"{n}.py").exists()]
    assert not missing, f"{place}/__init__.py lists what is not there: {missing}"
