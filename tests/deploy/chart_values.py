"""The table of the chart's values, from values.yaml and its comments.

A value's meaning is the comment on its line, and the lines below that hold nothing else; that of a
section is the comment above it.
"""

import re

from tests.deploy.manifests import DEPLOY

VALUES = DEPLOY / "chart" / "values.yaml"
_LINE = re.compile(r"^( *)([A-Za-z]\w*):(?: +([^# ].*?))?(?: {2,}# (.*))?$")
_ABOVE = re.compile(r"^ *# ?(.*)$")


def table() -> str:
    """Return a row for each value and each section that is explained."""
    rows: list[list[str]] = []
    path: list[tuple[int, str]] = []
    above: list[str] = []
    own, listed = False, 1 << 10
    for line in VALUES.read_text().splitlines():
        indent = len(line) - len(line.lstrip())
        listed = (
            indent if line.lstrip().startswith("- ") else listed if indent > listed else 1 << 10
        )
        if indent >= listed:
            continue  # in a list
        comment, found = _ABOVE.match(line), _LINE.match(line)
        if comment and own and indent > 20:
            rows[-1][2] += " " + comment[1]
        elif comment:
            above.append(comment[1])
        elif found:
            key, value, said = found[2], found[3] or "", found[4] or ""
            path = [one for one in path if one[0] < indent] + [(indent, key)]
            name, meaning = ".".join(part for _, part in path), said or " ".join(above)
            own = bool(said)
            if value or meaning:
                rows.append([name, value, meaning])
            above = []
        else:
            above, own = [], False
    lines = [
        f"| {n} | {f'`{v}`' if v else ''} | {m.replace('|', chr(92) + '|')} |" for n, v, m in rows
    ]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *lines])
