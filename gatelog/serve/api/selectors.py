"""Label and field selectors: as conditions of SQL, and as a test on what changed.

Theory. A selector is a list of terms, all of which must hold. A list has them compared by the
database, labels by the document operator that both databases spell alike; a watch compares what
changed here. A fragment of SQL is fixed text and parameters that hold everything a user wrote.

Invariant: nothing of a user becomes text of a statement; both ways select the same.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from gatelog.readmodel.grouplist import key_parameter
from gatelog.serve.api.status import bad

MOST_TERMS = 20
_KEY = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)", re.ASCII)
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})", re.ASCII)
_THERE = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)
_FIELD = re.compile(r"([A-Za-z.]+)\s*(==|=|!=)\s*(.*)", re.ASCII)
_VALUES = re.compile(_VALUE, re.ASCII)
_COMMA = re.compile(r",(?![^(]*\))")

FIELDS: Mapping[str, str] = {
    "metadata.name": "name",
    "metadata.namespace": "namespace",
    "metadata.uid": "id",
    "spec.kind": "kind",
    "spec.queue": "queue",
    "spec.priorityClass": "priority_class",
    "status.state": "state",
    "status.reason": "reason",
    "status.clusterQueue": "cluster_queue",
    "status.waiting.reason": "wait_reason",
}
"""Fields that select podgroups, and their columns."""


class Term(Struct, frozen=True):
    """One term: a key is (`in`) or is not (`notin`) one of the values, or is there (`has`)."""

    key: str
    verb: Literal["in", "notin", "has", "hasnot"]
    values: tuple[str, ...] = ()

    def holds(self, found: Mapping[str, str]) -> bool:
        """Tell whether labels or fields satisfy the term."""
        value = found.get(self.key)
        match self.verb:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "has":
                return value is not None
            case "hasnot":
                return value is None


def holds(terms: tuple[Term, ...], found: Mapping[str, str]) -> bool:
    """Tell whether labels or fields satisfy all terms."""
    return all(term.holds(found) for term in terms)


def label_conditions(
    terms: tuple[Term, ...], dialect: str = "postgresql"
) -> tuple[list[str], dict[str, Any]]:
    """Return fragments on `x.labels` and their parameters."""
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    for number, term in enumerate(terms):
        parameters[f"k{number}"] = key_parameter(term.key, dialect)
        given = {f"v{number}_{i}": one for i, one in enumerate(term.values)}
        parameters |= given
        has, listed = f"x.labels ->> :k{number}", ", ".join(f":{name}" for name in given)
        match term.verb:
            case "in":
                conditions.append(f"{has} IN ({listed})")
            case "notin":
                conditions.append(f"({has} IS NULL OR {has} NOT IN ({listed}))")
            case "has":
                conditions.append(f"{has} IS NOT NULL")
            case "hasnot":
                conditions.append(f"{has} IS NULL")
    return conditions, parameters


def field_conditions(terms: tuple[Term, ...]) -> tuple[list[str], dict[str, Any]]:
    """Return fragments on `g` and their parameters; keys are of `FIELDS`."""
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    for number, term in enumerate(terms):
        sign = "=" if term.verb == "in" else "<>"
        conditions.append(f"g.{FIELDS[term.key]} {sign} :f{number}")
        parameters[f"f{number}"] = term.values[0]
    return conditions, parameters


def equal(terms: tuple[Term, ...], key: str) -> str:
    """Return the value that a field must have, "" if it may have any."""
    found = [t.values[0] for t in terms if t.key == key and t.verb == "in"]
    return found[0] if found else ""


def read_labels(text: str) -> tuple[Term, ...]:
    """Return the terms of a label selector.

    Raises:
        Refused: 400, it is no label selector.
    """
    return tuple(_label(term) for term in _terms(text, "label"))


def _label(term: str) -> Term:
    if found := _SET.fullmatch(term):
        values = tuple(one.strip() for one in found[3].split(","))
        if not all(_VALUES.fullmatch(one) for one in values) or len(values) > MOST_TERMS:
            raise bad(
                f"label selector {term[:80]!r}: up to {MOST_TERMS} values of labels in brackets"
            )
        return Term(found[1], "in" if found[2] == "in" else "notin", values)
    if found := _EQUAL.fullmatch(term):
        return Term(found[1], "notin" if found[2] == "!=" else "in", (found[3],))
    if found := _THERE.fullmatch(term):
        return Term(found[2], "hasnot" if found[1] else "has")
    raise bad(
        f"label selector {term[:80]!r} cannot be read: KEY=VALUE, KEY!=VALUE, KEY in (A,B), "
        "KEY notin (A,B), KEY or !KEY are allowed"
    )


def read_fields(text: str) -> tuple[Term, ...]:
    """Return the terms of a field selector.

    Raises:
        Refused: 400, it is no field selector or names a field that selects nothing here.
    """
    found = []
    for term in _terms(text, "field"):
        parts = _FIELD.fullmatch(term)
        if parts is None or parts[1] not in FIELDS:
            raise bad(
                f"field selector {term[:80]!r} cannot be used: FIELD=VALUE or FIELD!=VALUE with "
                f"one of {', '.join(FIELDS)}"
            )
        found.append(Term(parts[1], "notin" if parts[2] == "!=" else "in", (parts[3],)))
    return tuple(found)


def _terms(text: str, what: str) -> list[str]:
    terms = [one.strip() for one in _COMMA.split(text)] if text.strip() else []
    if len(terms) > MOST_TERMS:
        raise bad(f"the {what} selector has {len(terms)} terms: up to {MOST_TERMS} are allowed")
    return terms
