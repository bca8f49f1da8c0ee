"""What the log said stays said, whatever a later release words or adds."""

import inspect
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from podgroup.fold import sentences
from podgroup.log.events import Decision
from podgroup.model.standing import Amount, Consumed
from podgroup.model.topology import TopologyDomain
from tests.golden import rows as golden
from tests.golden.other_words import LATER
from tests.golden.test_teams43 import LOG, lacking

FROZEN = {
    "HIDDEN": "label kueue.x-k8s.io/managed was removed from a pod that runs, or the pod is gone",
    "FOUND_AGAIN": "it is in sight again",
    "UNLABELLED": "label kueue.x-k8s.io/managed was removed",
    "GONE_BY_WRITE": "found out by a write: no watch saw it go",
    "GONE_BY_RELIST": "inferred from a relist: no watch saw it go",
    "GROUP_NAME_CHANGED": "group name changed",
    "GROUP_OVER": "its group was over",
    "RESTORED": "the cluster was restored from a backup",
    "GATED": "gated",
    "NOT_GATED": "not gated",
    "LEFT_BEHIND": "left behind",
    "LEFT_OUT": "left out",
    "NOT_INSTALLED": "kind is not installed",
    "AN_OPERATOR": "an operator",
    "REMOVED_ELSEWHERE": "by another client: it was gone before gatelog's write",
    "START_FAILED": "pod and admission contradict each other",
}
MADE = [
    (sentences.pod_seen("a", "b"), "pod a, role b"),
    (sentences.removed_by("kubectl"), "by kubectl"),
    (sentences.removed_by(""), ""),
    (sentences.scheduled_on("n1"), "on node n1"),
    (sentences.exit_code(3), "exit code 3"),
    (sentences.state_was("Queued"), "was Queued"),
    (sentences.state_was(""), ""),
    (sentences.resized("a", "cpu 1 became 2"), "pod a: cpu 1 became 2"),
    (sentences.became("cpu", "1", "2"), "cpu 1 became 2"),
    (sentences.recounted("a", "3", "4", 3), "pod a: 3 became 4; the group stays at 3"),
    (sentences.counts([(2, "main"), (1, "driver")]), "2 x main, 1 x driver"),
    (sentences.workload("w"), "Workload w"),
    (sentences.workload_refused("w", "no"), 'Workload "w" could not be created: no'),
    (sentences.answered(422), "the API server answered 422"),
    (sentences.reserved_in("q", ["a", "b"]), "in ClusterQueue q, for admission checks: a, b"),
    (sentences.resized_to([("a", 1, 2), ("b", 3, 1)]), "a: 1 became 2, b: 3 became 1"),
    (sentences.admitted_in("q"), "in ClusterQueue q"),
    (sentences.listed(3, 1), "3 listed, 1 gone unseen"),
    (sentences.acted("3/0", "", "why"), "3/0 by an operator: why"),
    (sentences.acted("3/0", "ann", "why"), "3/0 by ann: why"),
    (sentences.unreadable("spec.x", "no"), "spec.x: no"),
    (sentences.object_unreadable("Pod", "ns", "a", "no"), "Pod ns/a: no"),
    (sentences.object_refused("Pod", "ns", "a"), "Pod ns/a"),
    (sentences.decision_parked("d", "7"), "decision d, message 7 of DECISIONS"),
    (sentences.decisions_message(7), "message 7 of DECISIONS"),
    (sentences.decision_refused("s", "r", 0), "s: r"),
    (sentences.decision_refused("s", "r", 2), "s: r (2 others like it since the last)"),
    (
        sentences.namespace_full("ns", 16),
        "the large pods of namespace ns take the 16 MiB of memory that gatelog gives a namespace "
        "(queueing.namespace_memory_mib): affinity, tolerations, node selector, other labels and "
        "owners of this pod are read once others of them are gone",
    ),
    (sentences.queue_stopped("ClusterQueue", "q", "why"), "ClusterQueue q: why"),
    (sentences.start_reserved("q", None), "in ClusterQueue q, once what runs has ended"),
    (
        sentences.start_reserved("q", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        "in ClusterQueue q, by 2026-01-02 03:04:05 UTC at the latest",
    ),
]
"""As version 0cec161d says them, and those that came since."""
BY_PLACE = {
    Amount: "flavor resource nominal quota reserved used borrowed spare unadmitted",
    Consumed: "at amounts",
    TopologyDomain: "values count",
}
"""Structures of a command whose fields are known by their place alone."""


def test_the_sentences_of_the_fold_are_those_of_then() -> None:
    own = {name: value for name, value in vars(sentences).items() if name.isupper()}
    assert {name: own[name] for name in FROZEN} == FROZEN
    assert [(said, then) for said, then in MADE if said != then] == []


def test_each_sentence_that_is_made_is_held() -> None:
    """A new sentence gets its line in `MADE` or `FROZEN`, which is how it is frozen."""
    made = {
        name
        for name, value in inspect.getmembers(sentences, inspect.isfunction)
        if value.__module__ == sentences.__name__
    }
    source = Path(__file__).read_text()
    held = set(re.findall(r"sentences\.(\w+)\(", source))
    constants = {name for name in vars(sentences) if name.isupper()} - {"MANAGED_LABEL"}
    assert (made - held, constants - set(FROZEN)) == (set(), set())


def structures(kind: object) -> set[type[msgspec.Struct]]:
    """All structures that a value of a type may hold."""
    found: set[type[msgspec.Struct]] = set()
    waiting = [msgspec.inspect.type_info(kind)]
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in found:
                continue
            found.add(info.cls)
            waiting += [field.type for field in info.fields]
        for name in ("types", "item_types"):
            waiting += getattr(info, name, ())
        for name in ("item_type", "key_type", "value_type"):
            waiting += [one] if (one := getattr(info, name, None)) is not None else []
    return found


def test_a_recorded_command_grows_by_named_fields_only() -> None:
    """A field more is written by its name, if at all: what was recorded is written as it was.

    A structure that is an array gets no field: the new value goes beside it, by its own name.
    """
    found = structures(Decision)
    assert len(found) > 30
    by_place = {
        one: " ".join(one.__struct_fields__) for one in found if one.__struct_config__.array_like
    }
    assert by_place == BY_PLACE
    written = [
        one.__name__ for one in found - set(BY_PLACE) if not one.__struct_config__.omit_defaults
    ]
    assert written == []


@pytest.mark.timeout(600)
def test_another_release_gives_the_same_rows(tmp_path: Path) -> None:
    """Every text but the frozen ones is worded otherwise, and structures have a field more."""
    logs = [*golden.logs("v1"), LOG]
    command = [sys.executable, "-m", "tests.golden.other_words", str(tmp_path), *map(str, logs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    for log in logs[:-1]:
        cluster = log.name.partition(".")[0]
        found = golden.rows(f"sqlite:///{tmp_path}/{log.name}.sqlite3", cluster)
        before = golden.parsed(golden.kept(log))
        now = golden.as_kept(found, before)
        assert {name: rows for name, rows in now.items() if rows} == before, log.name
        assert LATER not in golden.text(found)
    assert lacking(f"sqlite:///{tmp_path}/{LOG.name}.sqlite3") == ([], [])
