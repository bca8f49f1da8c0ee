"""Draw the house: packages as rooms, as high as their lines, and what imports what as arrows.

Theory. A package lies above all that it imports, so every arrow points down; one that points up is
red, and there should be none. Inside a package are its modules and subpackages, small ones as one.

    python -m tests.deploy.house docs/pictures/house.svg [ROOT]

`ROOT` is another checkout, to draw what was. Invariant: the picture follows from the files alone.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path

import grimp

PACKAGES = ("gatelog", "projector", "ingest", "actuator", "runtime", "podgroup", "simcluster")
WIDTH, ROW, GAP, LINES_PER_PX = 250, 15, 60, 55
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#222}.t{font-weight:600;font-size:13px}"
    ".r{fill:#f4f6f8;stroke:#5b6b7b}.s{fill:#dfe7ee}.a{stroke:#5b6b7b;fill:none}"
    ".up{stroke:#c0392b;fill:none}.n{font-size:10px;fill:#5b6b7b}"
)


def drawn(root: Path) -> str:
    """Return the picture as SVG."""
    sys.path.insert(0, str(root))
    present = [name for name in PACKAGES if (root / name / "__init__.py").exists()]
    graph = grimp.build_graph(*present, cache_dir=None)
    rooms = {name: _rooms(root / name) for name in present}
    arrows: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            pair = (module.split(".")[0], other.split(".")[0])
            if pair[0] != pair[1]:
                arrows[pair] += 1
    return _svg(rooms, arrows)


def _rooms(package: Path) -> Mapping[str, int]:
    """Return lines of Python by module or subpackage, the largest first."""
    found: Counter[str] = Counter()
    for file in package.rglob("*.py"):
        found[file.relative_to(package).parts[0].removesuffix(".py")] += len(
            file.read_text().splitlines()
        )
    large = {name: lines for name, lines in found.most_common() if lines >= ROW * LINES_PER_PX}
    small = len(found) - len(large)
    others = {f"{small} others": found.total() - sum(large.values())} if small else {}
    return {**large, **others}


def _levels(arrows: Mapping[tuple[str, str], int], names: Mapping[str, object]) -> dict[str, int]:
    """Return how many packages lie below each, by the longest way; a circle counts once."""
    below = {name: {b for a, b in arrows if a == name} for name in names}

    @cache
    def level(name: str, seen: frozenset[str] = frozenset()) -> int:
        under = below[name] - seen
        return max((1 + level(one, seen | {name}) for one in under), default=0)

    return {name: level(name) for name in names}


def _svg(rooms: Mapping[str, Mapping[str, int]], arrows: Mapping[tuple[str, str], int]) -> str:
    levels = _levels(arrows, rooms)
    boxes: dict[str, tuple[float, float, float]] = {}
    y, width = 10.0, 0.0
    for number in sorted(set(levels.values()), reverse=True):
        x, high = 10.0, 0.0
        for name in (one for one in rooms if levels[one] == number):
            height = 26 + sum(max(ROW, lines / LINES_PER_PX) for lines in rooms[name].values())
            boxes[name] = (x, y, height)
            x, high = x + WIDTH + GAP, max(high, height)
        y, width = y + high + GAP, max(width, x)
    parts = [_arrow(boxes, pair, count) for pair, count in sorted(arrows.items())]
    parts += [_room(name, rooms[name], boxes[name]) for name in rooms]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y:.0f}" role="img">'
        f"<title>Packages of gatelog, as high as their lines, and their imports</title>"
        f'<style>{STYLE}</style><defs><marker id="m" orient="auto" markerUnits="userSpaceOnUse"'
        ' markerWidth="8" markerHeight="8" refX="7" refY="4">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6b7b"/></marker></defs>'
        '<rect width="100%" height="100%" fill="#fff"/>' + "\n".join(parts) + "</svg>\n"
    )


def _room(name: str, inside: Mapping[str, int], box: tuple[float, float, float]) -> str:
    x, y, height = box
    said = [
        f'<rect class="r" x="{x}" y="{y:.1f}" width="{WIDTH}" height="{height:.1f}"/>'
        f'<text class="t" x="{x + 8}" y="{y + 16:.1f}">{name} {sum(inside.values()):,}</text>'
    ]
    top = y + 22
    for label, lines in inside.items():
        high = max(ROW, lines / LINES_PER_PX)
        said.append(
            f'<rect class="s" x="{x + 6}" y="{top:.1f}" width="{WIDTH - 12}" '
            f'height="{high - 1:.1f}"/>'
        )
        text = f"{escape(label)} {lines:,}"
        said.append(f'<text x="{x + 12}" y="{top + high / 2 + 4:.1f}">{text}</text>')
        top += high
    return "".join(said)


def _arrow(
    boxes: Mapping[str, tuple[float, float, float]], pair: tuple[str, str], count: int
) -> str:
    (ax, ay, ah), (bx, by, _) = boxes[pair[0]], boxes[pair[1]]
    down = by > ay
    share = 0.2 + 0.6 * (sorted(boxes).index(pair[1]) / len(boxes))
    x1, y1 = ax + WIDTH * share, ay + ah
    x2 = bx + WIDTH * (0.2 + 0.6 * (sorted(boxes).index(pair[0]) / len(boxes)))
    bend = (y1 + by) / 2
    return (
        f'<path class="{"a" if down else "up"}" marker-end="url(#m)" '
        f'stroke-width="{1 + min(4, count / 60):.1f}" '
        f'd="M{x1:.0f} {y1:.0f}C{x1:.0f} {bend:.0f} {x2:.0f} {bend:.0f} {x2:.0f} {by:.0f}"/>'
        f'<text class="n" x="{x1 + 3:.0f}" y="{y1 + 12:.0f}">{count}</text>'
    )


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(prog="python -m tests.deploy.house")
    _parser.add_argument("out", type=Path, metavar="FILE.svg")
    _parser.add_argument("root", type=Path, nargs="?", default=Path(), help="a checkout")
    _given = _parser.parse_args()
    _given.out.write_text(drawn(_given.root.resolve()))
