"""A statement as people may paste it.

Invariant: its result is printed and never run.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any


def filled(query: str, values: Mapping[str, Any]) -> str:
    """Return a statement with its parameters written in, for printing only."""

    def literal(match: re.Match[str]) -> str:
        value = values[match[1]]
        if isinstance(value, datetime):
            value = value.isoformat()
        return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"

    return re.sub(r"(?<!:):([a-z_][a-z0-9_]*)\b", literal, query).strip() + ";"
