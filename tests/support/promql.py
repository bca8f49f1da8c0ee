"""As much of PromQL as the shipped alerts use, evaluated over pages scraped in a test.

The expression is parsed by promql-parser; what is here is the meaning of its parts, for instant
queries (Prometheus' documentation, "Expression language basics" and "Functions"). What a target
does not show in its last scrape, or when that failed, is stale at once, as it is there.

Invariant: what is not implemented raises, so that no alert passes because it was not understood.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import promql_parser as parser
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
NAME = "__name__"

_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else float("nan"),
}
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_AGGREGATED: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "count": lambda values: float(len(values)),
}


class Prometheus:
    """Samples of targets over time, and the rules of one file."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self._rules = [rule for group in groups for rule in group["rules"]]
        self._series: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
        self._scraped: dict[str, list[tuple[float, set[Labels]]]] = defaultdict(list)
        self._active_since: dict[tuple[str, Labels], float] = {}
        self.now = 0.0

    def scrape(self, pages: dict[str, str | None], at: float) -> None:
        """Take the pages of all targets; None for one that did not answer. Then apply the rules."""
        self.now = at
        for target, page in pages.items():
            found: set[Labels] = set()
            for family in text_string_to_metric_families(page or ""):
                for sample in family.samples:
                    labels = {NAME: sample.name, "instance": target, **sample.labels}
                    key = frozenset(labels.items())
                    found.add(key)
                    self._series[key].append((at, float(sample.value)))
            self._scraped[target].append((at, found))
        recorded: set[Labels] = set()
        self._scraped["rules"].append((at, recorded))
        for rule in self._rules:
            if "record" in rule:
                for found_labels, value in self.query(rule["expr"]).items():
                    key = _bare(found_labels) | {(NAME, rule["record"])}
                    recorded.add(key)
                    self._series[key].append((at, value))
        self._note()

    def firing(self) -> dict[str, int]:
        """Alerts that fire now, and with how many sets of labels."""
        found: dict[str, int] = defaultdict(int)
        for rule in self._rules:
            if "alert" not in rule:
                continue
            for labels in self.query(rule["expr"]):
                since = self._active_since.get((rule["alert"], labels))
                if since is not None and self.now - since >= _seconds(rule.get("for", "0s")):
                    found[rule["alert"]] += 1
        return dict(found)

    def _note(self) -> None:
        active = {
            (rule["alert"], labels)
            for rule in self._rules
            if "alert" in rule
            for labels in self.query(rule["expr"])
        }
        known = self._active_since
        self._active_since = {one: known.get(one, self.now) for one in active}

    def query(self, text: str) -> Vector:
        """Evaluate an expression now."""
        found = self._eval(parser.parse(text))
        return found if isinstance(found, dict) else {frozenset(): found}

    def _eval(self, e: Any) -> Any:
        match type(e).__name__:
            case "NumberLiteral":
                return float(e.val)
            case "ParenExpr":
                return self._eval(e.expr)
            case "VectorSelector":
                return self._instant(e)
            case "AggregateExpr":
                return self._aggregate(e)
            case "BinaryExpr":
                return self._binary(e)
            case "Call":
                return self._call(e)
        raise NotImplementedError(type(e).__name__)

    def _matching(self, selector: Any) -> Iterable[Labels]:
        wanted = [(m.name, str(m.op), m.value) for m in selector.matchers.matchers]
        for key in list(self._series):
            labels = dict(key)
            if labels.get(NAME) == selector.name and all(
                _matches(labels.get(name, ""), op, value) for name, op, value in wanted
            ):
                yield key

    def _instant(self, selector: Any) -> Vector:
        at = self.now - (selector.offset.total_seconds() if selector.offset else 0.0)
        before = [[s for s in scrapes if s[0] <= at][-1:] for scrapes in self._scraped.values()]
        current = set().union(*(found for last in before for _, found in last))
        return {
            key: [value for t, value in self._series[key] if t <= at][-1]
            for key in self._matching(selector)
            if key in current
        }

    def _range(self, e: Any) -> dict[Labels, list[tuple[float, float]]]:
        begin = self.now - e.range.total_seconds()
        found = {key: self._series[key] for key in self._matching(e.vector_selector)}
        return {
            key: kept for key, all in found.items() if (kept := [p for p in all if p[0] > begin])
        }

    def _aggregate(self, e: Any) -> Vector:
        modifier = e.modifier
        by = set(modifier.labels) if modifier is not None else set()
        if modifier is not None and modifier.type != parser.AggModifierType.By:
            raise NotImplementedError("without")
        groups: dict[Labels, list[float]] = defaultdict(list)
        for labels, value in self._eval(e.expr).items():
            groups[frozenset(one for one in labels if one[0] in by)].append(value)
        return {labels: _AGGREGATED[str(e.op)](values) for labels, values in groups.items()}

    def _binary(self, e: Any) -> Any:
        left, right, op = self._eval(e.lhs), self._eval(e.rhs), str(e.op)
        on = e.modifier.matching if e.modifier is not None else None
        if op in ("and", "or", "unless"):
            return _set(op, left, right, None if on is None else set(on.labels))
        if not isinstance(left, dict) and not isinstance(right, dict):
            return _OPERATORS[op](left, right)
        if not isinstance(right, dict):
            pairs = [(labels, value, right) for labels, value in left.items()]
        elif not isinstance(left, dict):
            pairs = [(labels, left, value) for labels, value in right.items()]
        else:
            others = {_bare(labels): value for labels, value in right.items()}
            pairs = [(k, v, others[_bare(k)]) for k, v in left.items() if _bare(k) in others]
        if op in _COMPARED:
            vector_left = isinstance(left, dict)
            return {k: a if vector_left else b for k, a, b in pairs if _COMPARED[op](a, b)}
        return {_bare(k): _OPERATORS[op](a, b) for k, a, b in pairs}

    def _call(self, e: Any) -> Any:
        match e.func.name:
            case "time":
                return self.now
            case "absent":
                if self._eval(e.args[0]):
                    return {}
                matchers = e.args[0].matchers.matchers
                return {frozenset((m.name, m.value) for m in matchers): 1.0}
            case "increase" | "rate" as name:
                per = e.args[0].range.total_seconds() if name == "rate" else 1.0
                return {
                    _bare(k): _grown(v) / per for k, v in self._range(e.args[0]).items() if v[1:]
                }
            case "max_over_time":
                found = self._range(e.args[0]).items()
                return {_bare(k): max(value for _, value in v) for k, v in found}
            case "histogram_quantile":
                return self._quantile(self._eval(e.args[0]), self._eval(e.args[1]))
        raise NotImplementedError(e.func.name)

    def _quantile(self, share: float, buckets: Vector) -> Vector:
        groups: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
        for labels, value in buckets.items():
            rest = frozenset(one for one in labels if one[0] != "le")
            groups[rest].append((float(dict(labels)["le"]), value))
        found: Vector = {}
        for labels, points in groups.items():
            points.sort()
            total = points[-1][1]
            if total:
                found[labels] = next(le for le, count in points if count >= share * total)
        return found


def _set(op: str, left: Vector, right: Vector, on: set[str] | None) -> Vector:
    def key(labels: Labels) -> Labels:
        bare = _bare(labels)
        return bare if on is None else frozenset(one for one in bare if one[0] in on)

    there = {key(labels) for labels in right}
    if op == "and":
        return {labels: value for labels, value in left.items() if key(labels) in there}
    if op == "unless":
        return {labels: value for labels, value in left.items() if key(labels) not in there}
    mine = {key(labels) for labels in left}
    return left | {labels: value for labels, value in right.items() if key(labels) not in mine}


def _bare(labels: Labels) -> Labels:
    return frozenset(one for one in labels if one[0] != NAME)


def _matches(found: str, op: str, value: str) -> bool:
    match op.rpartition(".")[2]:
        case "Equal":
            return found == value
        case "NotEqual":
            return found != value
        case "Re":
            return re.fullmatch(value, found) is not None
        case "NotRe":
            return re.fullmatch(value, found) is None
    raise NotImplementedError(op)


def _grown(points: list[tuple[float, float]]) -> float:
    values = [value for _, value in points]
    return sum(max(0.0, b - a) for a, b in pairwise(values))


def _seconds(text: str) -> float:
    sizes = {"s": 1, "m": 60, "h": 3600}
    return sum(int(n) * sizes[unit] for n, unit in re.findall(r"(\d+)([smh])", text))
