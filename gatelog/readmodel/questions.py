"""Frequent questions: `gatelog ask NAME`, each a statement with parameters.

Theory. A question is SQL over the public tables, kept as SQL in `questions.sql`: a line
`-- NAME: what it answers`, then the statement. Its parameters are the options of `gatelog ask` and
the variables of a Grafana dashboard, so one text serves all three.

Invariant: every statement reads one cluster only, and its parameters are of `PARAMETERS`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec
from msgspec import Struct

from gatelog.readmodel.grouplist import key_parameter
from gatelog.readmodel.rates import hours_text, unit, unit_name
from gatelog.readmodel.statements.shown import filled
from gatelog.readmodel.timeline import plain
from podgroup.model.quantities import MAX_INT64
from podgroup.model.wording import UNLIMITED, quantity
from projector.times import utc_text

PARAMETERS: Final[Mapping[str, str]] = {
    "namespace": "of this namespace",
    "queue": "of this ClusterQueue, or LocalQueue",
    "group": "of this group, as NAMESPACE/NAME or with --namespace",
    "team": "of pods with this team label",
    "since": "from this time",
    "until": "to this time",
}
"""Parameters of questions; the value "" selects all."""
_ALIASES = {"team_label": "team", "since_day": "since", "until_day": "until"}
_AMOUNTS = frozenset(
    (
        "requested",
        "available",
        "without_limit",
        "nominal",
        "held",
        "borrowed",
        "idle",
        "lent",
        "was",
    )
)
"""Columns of amounts as the tables have them: cpu in thousandths."""
_QUOTAS = frozenset(("available", "without_limit", "nominal", "idle", "was"))
"""Columns of amounts of quota."""
_HOURS = frozenset(("hours", "amount_hours", "resource_hours"))
"""Columns of amounts times hours as views have them: cpu in cores, memory in bytes."""
_MEANS = frozenset(("borrowed", "most_at_once"))
"""Columns of mean or greatest amounts as views have them."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_HEAD = re.compile(r"^-- ([a-z]+): (.+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")


class Question(Struct, frozen=True, kw_only=True):
    """A question by its name: its text, and its statement without the last `;`."""

    name: str
    asks: str
    sql: str

    @property
    def parameters(self) -> list[str]:
        """Its parameters, in the order of `PARAMETERS`."""
        found = {_ALIASES.get(name, name) for name in _PARAMETER.findall(self.sql)}
        return [name for name in PARAMETERS if name in found]


class Scope(Struct, frozen=True, kw_only=True):
    """The values of a question's parameters."""

    cluster: str
    since: datetime
    until: datetime
    namespace: str = ""
    queue: str = ""
    group: str = ""
    team: str = ""
    team_label: str = "team"

    def values(self, dialect: str) -> dict[str, str]:
        """Return all parameters as texts that both databases read."""
        return {
            "cluster": self.cluster,
            "namespace": self.namespace,
            "queue": self.queue,
            "group": self.group,
            "team": self.team,
            "team_label": key_parameter(self.team_label, dialect),
            "since": utc_text(self.since),
            "until": utc_text(self.until),
            "since_day": f"{self.since:%Y-%m-%d}",
            "until_day": f"{self.until:%Y-%m-%d}",
        }


@cache
def questions() -> Mapping[str, Question]:
    """Return all questions by name, in the order of the file."""
    text = (files("gatelog.readmodel") / "questions.sql").read_text()
    heads = list(_HEAD.finditer(text))
    ends = [one.start() for one in heads[1:]] + [len(text)]
    return {
        head[1]: Question(name=head[1], asks=head[2], sql=text[head.end() : end].strip())
        for head, end in zip(heads, ends, strict=True)
    }


def statement(question: Question, scope: Scope, dialect: str) -> str:
    """Return a question as it may be pasted into sqlite3, psql or DuckDB."""
    return filled(question.sql, scope.values(dialect))


def readable(names: Sequence[str], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row as people read it: times to the second, amounts with units, few digits, and
    sentences without ids.
    """
    resource = row[names.index("resource")] if "resource" in names else ""
    return tuple(_shown(name, resource, value) for name, value in zip(names, row, strict=True))


def typed(value: Any) -> Any:
    """Return a value as programs read it, of either database: SQLite has times and documents as
    texts.
    """
    if not isinstance(value, str):
        return value
    if _TIME.fullmatch(value):
        return datetime.fromisoformat(value)
    if not (value.startswith(('{"', "[")) or value == "{}"):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:  # a user's text that begins so
        return value


def _shown(name: str, resource: str, value: Any) -> Any:
    if name == "message" and value:
        return plain(value)
    if name == "lost_hours" and value:
        return hours_text(msgspec.json.decode(value) if isinstance(value, str) else value)
    if resource and name in _AMOUNTS and isinstance(value, int):
        return _amount(name, resource, value)
    if not resource or name not in _HOURS | _MEANS or value is None:
        return _readable(value)
    large = unit(resource) if resource != "cpu" else 1  # those views have cores
    said = _readable(float(value) / large)
    if name in _HOURS:
        return f"{said} {unit_name(resource)}"
    return f"{said}Gi" if large > 1 else said


def _amount(name: str, resource: str, value: int) -> str:
    unlimited = value >= MAX_INT64 and name in _QUOTAS
    return UNLIMITED if unlimited else quantity(resource, value)


def _readable(value: Any) -> Any:
    match value := typed(value):
        case datetime():
            return f"{value.astimezone(UTC):%F %TZ}"
        case float() | Decimal():
            number = float(value)
            return f"{number:.2f}" if abs(number) >= 0.1 or abs(number) < 1e-9 else f"{number:.2g}"
        case dict() if all(isinstance(held, dict) for held in value.values()):
            amounts = ((f, r, a) for f, held in value.items() for r, a in held.items())
            return ", ".join(f"{_amount('', r, a)} {r} of {f}" for f, r, a in amounts) or "nothing"
        case _:
            return value


def for_grafana(question: Question) -> str:
    """Return a question with the variables of a dashboard: its range of time, and texts by name."""

    def variable(match: re.Match[str]) -> str:
        match match[1]:
            case "since":
                return "$__timeFrom()"
            case "until":
                return "$__timeTo()"
            case "since_day":
                return "left($__timeFrom(), 10)"
            case "until_day":
                return "left($__timeTo(), 10)"
            case name:
                return f"${{{name}:sqlstring}}"

    return _PARAMETER.sub(variable, question.sql)
