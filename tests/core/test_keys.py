"""The table of keys that a pod may bear, against the code that reads them, both ways.

A key that code reads and the table lacks would be read of pods in tests, and never of one in a
cluster: ingest keeps annotations by the table. A key of the table that nothing reads is a promise.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.translate import fields
from podgroup.model import names
from podgroup.model.keys import KEYS, UNGATING, Key, enters_log
from podgroup.model.limits import ANNOTATION_BYTES
from podgroup.model.policy import Policy
from podgroup.rules.helpers.no_workload import without_workload
from tests.support.toy import Toy

ROOT = Path(__file__).parents[2]
BY_NAME = {key.name: key for key in KEYS}
NOT_OF_PODS = {
    names.IS_GROUP_WORKLOAD: "Workloads",
    names.JOB_UID: "Workloads",
    names.TEMPLATE: "Workloads",
    names.REASON_ANNOTATION: "queues and Workloads",
    names.LEAST_RUN_ANNOTATION: "WorkloadPriorityClasses",
    names.REASON_BY_ANNOTATION: "queues and Workloads",
    "kubernetes.io/metadata.name": "namespaces",
    "kubernetes.io/config.mirror": "a kubelet's own pods, which are left alone",
    "kubernetes.io/hostname": "nodes",
    "k8s.io/initial-events-end": "bookmarks of a watch",
    "annotations": "metadata of a declared template",
}
"""Keys that code reads, of what else or why they are in no table."""
CORE = ("podgroup/fold", "podgroup/rules", "podgroup/state", "podgroup/log", "podgroup/admission")
MODEL = ("podgroup/model", "ingest/translate")
DOOR = ("ingest/webhook",)
_ASKS = {"get", "pop"}
_MAPS = {"labels", "annotations", "notes", "marks", "source"}


def _map_of(node: ast.expr) -> str:
    """Return the name of a map of labels or annotations that an expression gives, else ""."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) if name in _MAPS:
            return name
        case ast.BoolOp(values=[first, *_]):
            return _map_of(first)
    return ""


def _value(node: ast.expr, module: str) -> str | None:
    """Return the text that a constant is, None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            found = getattr(importlib.import_module(module), name, None)
        case ast.Attribute(value=ast.Name(id="names"), attr=name):
            found = getattr(names, name, None)
        case _:
            return None
    return found if isinstance(found, str) else None


def _read(tree: ast.AST, module: str) -> Iterator[tuple[str, str]]:
    """Yield (map, key) of each constant by which a map of labels or annotations is asked."""
    for node in ast.walk(tree):
        found: list[tuple[ast.expr, ast.expr]] = []
        match node:
            case ast.Call(func=ast.Attribute(value=where, attr=name), args=[key, *_]):
                found = [(where, key)] if name in _ASKS else []
            case ast.Subscript(value=where, slice=key):
                found = [(where, key)]
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[where]):
                found = [(where, key)]
        for where, key in found:
            held = _map_of(where)
            text = _value(key, module) if held else None
            if held and text is not None:
                yield held, text


def _modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name not in ("names.py", "keys.py"):
                inside = path.relative_to(ROOT).with_suffix("")
                parts = inside.parts[:-1] if inside.name == "__init__" else inside.parts
                yield ".".join(parts), ast.parse(path.read_text())


def unknown(held: str, text: str) -> bool:
    """Tell whether a read is of a key that the table lacks, or has as the other kind."""
    if text in NOT_OF_PODS:
        return False
    key = BY_NAME.get(text)
    return (
        key is None
        or (held == "labels" and not key.label)
        or (held == "annotations" and not key.annotation)
    )


def test_whatever_is_read_of_a_pod_is_in_the_table() -> None:
    reads = [
        (module, held, text)
        for module, tree in _modules(*CORE, *MODEL, *DOOR)
        for held, text in _read(tree, module)
    ]
    assert len(reads) > 70
    lacking = sorted(
        {f"{held}[{text}] in {module}" for module, held, text in reads if unknown(held, text)}
    )
    assert not lacking, (
        f"of pods are read {lacking}: give each key a constant in podgroup/model/names.py and its "
        "entry in podgroup/model/keys.py, or ingest keeps it out of the log"
    )


@pytest.mark.parametrize(
    "line",
    [
        "view.annotations.get('gatelog.io/max-wait-seconds')",
        "pod.view.labels['kueue.x-k8s.io/max-wait']",
        "'kueue.x-k8s.io/max-wait' in annotations",
        "(meta.labels or {}).get('team.example.com/x')",
        "view.labels.get('kueue.x-k8s.io/pod-group-total-count')",
    ],
)
def test_a_key_that_the_table_lacks_is_found(line: str) -> None:
    (read,) = _read(ast.parse(line), "podgroup.model.names")
    assert unknown(*read)


THROUGH = {"group_name": names.GROUP_NAME, "prebuilt_name": names.PREBUILT_WORKLOAD}
"""Functions of `names` that read a key."""
CONSTANTS = {
    value: name
    for name, value in vars(names).items()
    if isinstance(value, str)
    and value in BY_NAME
    and name not in ("POD_FINALIZER", "ELASTIC_JOB_GATE")
}


def _mentioned(*packages: str) -> set[str]:
    """Return the keys that code in packages mentions by a constant, but to import it."""
    found: set[str] = set()
    for _, tree in _modules(*packages):
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="names"), attr=name):
                    found.add(THROUGH.get(name, name))
    return {key for key, name in CONSTANTS.items() if {key, name} & found}


def _flagged(flag: str) -> set[str]:
    return {key.name for key in KEYS if getattr(key, flag)}


def test_each_key_is_read_where_the_table_says() -> None:
    """A key without a reader is one too many, and a reader without its flag is not known of."""
    assert len(CONSTANTS) == len(KEYS) == len(BY_NAME)
    by_table = {key.name for key in KEYS if key.prefix}
    written = _flagged("written")
    for flag, read, where in (
        ("core", _mentioned("podgroup") - written, "fold, rules or state"),
        ("door", _mentioned(*DOOR) | by_table & _flagged("door"), "the webhook"),
    ):
        due = _flagged(flag) - (written if flag == "core" else set())
        assert not read - due, f"keys.py lacks `{flag}` of {read - due}, which {where} read"
        assert not due - read, f"keys.py has `{flag}` of {due - read}, which {where} never read"
    writers = _mentioned("podgroup/rules", "ingest/webhook", "actuator")
    unsaid = written - writers
    assert not unsaid, f"keys.py has `written` of {unsaid}, which nothing writes"
    assert not [key for key in KEYS if not (key.core or key.door or key.written)]


def test_what_comes_with_the_gate_is_what_the_rule_writes() -> None:
    """Another key that it writes is taken for a user's, and one that it does not write for ours."""
    ((_, tree),) = (one for one in _modules("podgroup/rules") if one[0] == "podgroup.rules.ungate")
    mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert {key for key, name in CONSTANTS.items() if name in mentioned} == UNGATING


_OURS = re.compile(
    r"""['/]((?:(?:[a-z]+\.)?kueue\.x-k8s\.io|gatelog\.io|leaderworkerset\.sigs\.k8s\.io)"""
    r"""(?:/|~1)[a-z-]*)['"]"""
)
"""A key in a policy: a text of CEL, or the end of a JSON pointer, which writes ~1 for the slash."""
_MARKS = {names.ADMISSION_GATE, names.TOPOLOGY_GATE, names.ELASTIC_JOB_GATE, names.POD_FINALIZER}
WEBHOOK_ALONE = {names.ROLE_HASH, names.PODSET_GROUP_NAME, names.SLICE_CONSTRAINTS}
"""Judged by the webhook and by no policy."""


def test_the_policies_know_the_keys_that_the_webhook_judges() -> None:
    files = sorted((ROOT / "deploy" / "admission-policy").glob("*.yaml"))
    found = _OURS.findall("".join(path.read_text() for path in files))
    said = {key.replace("~1", "/") for key in found} - {names.PREFIX}
    named, judged = said - _MARKS, _flagged("door") - said - _MARKS
    stray = named - _flagged("door") - _flagged("written")
    assert not stray, f"policies name {stray}: keys.py lacks it, or its `door` or `written`"
    assert not judged - WEBHOOK_ALONE, (
        f"no policy of deploy/admission-policy judges {judged - WEBHOOK_ALONE}, as the webhook "
        "does (`door`): judge it there as well, or list it in WEBHOOK_ALONE"
    )
    assert not WEBHOOK_ALONE - judged, f"a policy names {WEBHOOK_ALONE - judged} by now"


def test_the_policies_bound_annotations_as_the_table_does() -> None:
    policy = ROOT / "deploy" / "admission-policy" / "validating-admission-policy.yaml"
    (line,) = re.findall(
        r"size\(bytes\(variables\.annotations\[key\]\)\) <= (.*)", policy.read_text()
    )
    longer = [key for key in KEYS if key.bytes != ANNOTATION_BYTES]
    bounds = [f"key == '{key.name}' ? {key.bytes} : " for key in longer]
    assert line == f"({''.join(bounds)}{ANNOTATION_BYTES})"


READ = [key for key in KEYS if key.annotation and (key.core or enters_log(key.name))]


@pytest.mark.parametrize("key", READ, ids=lambda key: key.name)
def test_an_annotation_that_rules_read_enters_the_log_up_to_its_bound(key: Key) -> None:
    name = f"{key.name}class" if key.prefix else key.name
    kept, unread = fields.annotations({name: "x" * key.bytes, "example.com/other": "y"})
    assert (list(kept), unread) == ([name], ())
    kept, unread = fields.annotations({name: "x" * (key.bytes + 1)})
    assert not kept
    assert f"at most {key.bytes}" in str(unread)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_single_pod_with_a_key_that_needs_a_workload_has_one(key: Key) -> None:
    toy = Toy(policy=Policy(workloads="groups"))
    if key.name in (names.GROUP_NAME, names.QUEUE_NAME, names.MANAGED_LABEL):
        return  # it is none of a single pod, or every pod's
    text = "example.com/x" if key.name == names.ADMISSION_GATED_BY else "60"
    said = {key.name: text}
    toy.pod(
        "foo", annotations=said if key.annotation else {}, labels={} if key.annotation else said
    )
    (group,) = toy.world.groups.values()
    assert bool(toy.workloads) is (key.workload and key.name != names.PREBUILT_WORKLOAD)
    if key.workload and not toy.workloads:
        assert not without_workload(toy.world, group)
