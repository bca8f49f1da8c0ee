"""Label and field selectors: text to a predicate over stored objects.

Theory: a selector is a conjunction of requirements; parsing is cached because the same few
selectors are used by every list and watch.

Invariant: a predicate never raises on a stored object; wrong selectors fail while parsing with 400.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from simcluster.errors import ApiError, Obj, bad_request

Predicate = Callable[[Obj], bool]

_SET = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_EQUAL = re.compile(
    r"^\s*(?P<key>[^\s!=,()<>]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s!=,()]*)\s*$"
)
_EXISTS = re.compile(r"^\s*(?P<no>!?)\s*(?P<key>[^\s!=,()]+)\s*$")

_COMMON_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
_FIELDS: dict[str, frozenset[str]] = {
    "pods": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    "events": frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
    "namespaces": frozenset({"status.phase"}),
    "nodes": frozenset({"spec.unschedulable"}),
    "secrets": frozenset({"type"}),
    "jobs": frozenset({"status.successful"}),
    "replicasets": frozenset({"status.replicas"}),
}


def _pieces(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    found, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            found.append(text[start:i])
            start = i + 1
    return [*found, text[start:]]


def _requirement(piece: str) -> Callable[[dict[str, str]], bool]:
    if match := _SET.match(piece):
        key, values = match["key"], {v.strip() for v in match["values"].split(",")}
        if match["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUAL.match(piece):
        key, op, value = match["key"], match["op"], match["value"]
        if op in ("=", "=="):
            return lambda labels: labels.get(key) == value
        if op == "!=":
            return lambda labels: labels.get(key) != value
        return _ordered(key, op, value)
    if match := _EXISTS.match(piece):
        key, absent = match["key"], bool(match["no"])
        return lambda labels: (key in labels) is not absent
    raise bad_request(f"unable to parse requirement: found '{piece}'")


def _ordered(key: str, op: str, value: str) -> Callable[[dict[str, str]], bool]:
    try:
        bound = int(value)
    except ValueError:
        raise bad_request(f"unable to parse requirement: '{value}' is no integer") from None

    def holds(labels: dict[str, str]) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number > bound if op == ">" else number < bound

    return holds


@lru_cache(maxsize=512)
def labels(text: str) -> Callable[[dict[str, str]], bool] | None:
    """Predicate over a label map; ``None`` when everything matches. Raises 400."""
    if not text.strip():
        return None
    requirements = [_requirement(piece) for piece in _pieces(text)]
    if len(requirements) == 1:
        return requirements[0]
    return lambda found: all(holds(found) for holds in requirements)


def value_at(obj: Obj, path: str) -> str:
    """The field as a selector sees it: text, empty when absent."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if path.endswith(("unschedulable", "hostNetwork")) else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache(maxsize=512)
def fields(text: str, plural: str) -> Predicate | None:
    """Predicate over an object; ``None`` when everything matches. Raises 400."""
    if not text.strip():
        return None
    known = _COMMON_FIELDS | _FIELDS.get(plural, frozenset())
    wanted: list[tuple[str, bool, str]] = []
    for piece in text.split(","):
        match = re.match(r"^\s*([^=!]+?)\s*(==|=|!=)\s*(.*?)\s*$", piece)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{piece}'")
        path, op, value = match.groups()
        if path not in known:
            raise ApiError(400, "BadRequest", f"field label not supported: {path}")
        wanted.append((path, op != "!=", value))
    return lambda obj: all((value_at(obj, p) == v) is equal for p, equal, v in wanted)


def combined(label_text: str, field_text: str, plural: str) -> Predicate | None:
    """Both selectors as one predicate over an object; ``None`` when all objects match."""
    by_label, by_field = labels(label_text), fields(field_text, plural)
    if by_label is None:
        return by_field
    if by_field is None:
        return lambda obj: by_label(obj["metadata"].get("labels") or {})
    return lambda obj: by_label(obj["metadata"].get("labels") or {}) and by_field(obj)


def label_selector(selector: Obj | None) -> Callable[[dict[str, str]], bool]:
    """A structured ``LabelSelector`` (webhook configurations): empty matches everything."""
    selector = selector or {}
    tests: list[Callable[[dict[str, str]], bool]] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        tests.append(lambda found, k=key, v=value: found.get(k) == v)  # type: ignore[misc]
    for item in selector.get("matchExpressions") or ():
        key, op, values = item["key"], item["operator"], ",".join(item.get("values") or ())
        text = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }[op]
        tests.append(_requirement(text))
    return lambda found: all(test(found) for test in tests)
