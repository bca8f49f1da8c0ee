"""Validation, row by row: rules on creation, rules on change, and bounds of our own."""

from typing import Any

import pytest

from ingest.webhook.fields import ErrorKind
from ingest.webhook.pod import PodError, read_pod
from ingest.webhook.policy import WebhookPolicy
from ingest.webhook.validate import OWNER_WARNING, Verdict
from podgroup.model import names
from tests.webhook.cluster import RAW, Cluster, created, raw_pod, recorded_reviews, updated

G, T, P, Q = names.GROUP_NAME, names.GROUP_TOTAL_COUNT, names.PREBUILT_WORKLOAD, names.QUEUE_NAME
LABEL = "metadata.labels[{}]".format
ANNOTATION = "metadata.annotations[{}]".format
JOB = ("batch/v1", "Job", "job")
MANAGED = {names.MANAGED_LABEL: "true"}
INVALID, REQUIRED, FORBIDDEN = ErrorKind.INVALID, ErrorKind.REQUIRED, ErrorKind.FORBIDDEN
Errors = list[tuple[ErrorKind, str]]
SETS = """\
- name: driver
- name: workers
  count: 10
  template:
    spec:
      containers:
        - {name: w, requests: {cpu: 1}}
"""


def found(verdict: Verdict) -> Errors:
    return [(error.kind, error.path) for error in verdict.errors]


def group(name: str = "g", total: str | None = "3", **labels: str) -> RAW:
    annotations = {} if total is None else {T: total}
    return raw_pod(labels={G: name, **labels}, annotations=annotations, gated=True)


def both(labels: dict[str, str], annotations: dict[str, str], **more: Any) -> RAW:
    return raw_pod(labels=labels, annotations=annotations, **more)


def asking(**requests: str) -> RAW:
    raw = raw_pod(labels={Q: "q"}, gated=True)
    raw["spec"]["containers"][0]["resources"] = {"requests": requests}
    return raw


def ending(seconds: int) -> RAW:
    """A pod as most are, but for the time that it asks for to end."""
    raw = asking(cpu="1")
    raw["metadata"]["labels"][names.MANAGED_LABEL] = "true"
    raw["spec"]["terminationGracePeriodSeconds"] = seconds
    return raw


def with_spec(**fields: Any) -> RAW:
    raw = raw_pod(labels={Q: "q"}, gated=True)
    raw["spec"].update(fields)
    return raw


GRACE = "spec.terminationGracePeriodSeconds"
REQUESTS = "spec.containers[0].resources.requests[{}]".format
MANY = {f"example.com/{n}": "x" for n in range(names.MAX_ENTRIES)}
RESOURCES = {f"example.com/{n}": "1" for n in range(names.MAX_RESOURCES)}


def choosing(count: int, terms: int = 1, **more: Any) -> dict[str, Any]:
    """Fields of a spec that leads to nodes: so many values in each of so many terms."""
    one = {"key": "rack", "operator": "In", "values": [f"r{n}" for n in range(count)]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [one]}] * terms}
    kind = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {kind: required}}, **more}


NODES = {f"example.com/{n}": "x" for n in range(names.MAX_ENTRIES)}
TAINTS = [{"key": f"k{n}", "operator": "Exists"} for n in range(names.MAX_ENTRIES)]
MORE_NODES, MORE_TAINTS = NODES | {"a": "b"}, [*TAINTS, {"operator": "Exists"}]
HOLDERS = [f"example.com/f{n}" for n in range(names.MAX_ENTRIES)]
OWNERS = [
    {"apiVersion": "v1", "kind": "ConfigMap", "name": f"c{n}", "uid": f"u{n}"}
    for n in range(names.MAX_ENTRIES)
]


def bearing(**meta: Any) -> RAW:
    raw = with_spec()
    raw["metadata"].update(meta)
    return raw


AFFINITY = "spec.affinity.nodeAffinity"
CREATE: list[Any] = [
    pytest.param(with_spec(nodeSelector=NODES, tolerations=TAINTS), [], id="VB12-most"),
    pytest.param(with_spec(nodeSelector=MORE_NODES), [(INVALID, "spec.nodeSelector")], id="VB12"),
    pytest.param(with_spec(tolerations=MORE_TAINTS), [(INVALID, "spec.tolerations")], id="VB13"),
    pytest.param(bearing(ownerReferences=OWNERS), [], id="VB16-most"),
    pytest.param(
        bearing(finalizers=[*HOLDERS, "a.io/b"]), [(INVALID, "metadata.finalizers")], id="VB15"
    ),
    pytest.param(
        bearing(ownerReferences=[*OWNERS, OWNERS[0] | {"uid": "x"}]),
        [(INVALID, "metadata.ownerReferences")],
        id="VB16",
    ),
    pytest.param(with_spec(**choosing(1999)), [], id="VB14-most"),
    pytest.param(with_spec(**choosing(2000)), [(INVALID, AFFINITY)], id="VB14"),
    pytest.param(with_spec(**choosing(0, 501)), [(INVALID, AFFINITY)], id="VB14-terms"),
    pytest.param(with_spec(**choosing(100, 20)), [(INVALID, AFFINITY)], id="VB14-in-all"),
    pytest.param(with_spec(**choosing(90, 20)), [], id="VB14-most-in-all"),
    pytest.param(both(MANY | {Q: "q"}, {}), [(INVALID, "metadata.labels")], id="VB9-B32"),
    pytest.param(both({Q: "q"}, MANY | {"a": "b"}), [(INVALID, "metadata.annotations")], id="VB10"),
    pytest.param(both({Q: "q"}, MANY), [], id="VB10-most"),
    pytest.param(both(MANY | {"a": "b"}, {}), [], id="VB9-in-no-queue"),
    pytest.param(
        asking(cpu="1", **RESOURCES),
        [(INVALID, "spec.containers[0].resources.requests")],
        id="VB11",
    ),
    pytest.param(asking(**RESOURCES), [], id="VB11-most"),
    pytest.param(asking(cpu="1e300"), [(INVALID, REQUESTS("cpu"))], id="VB2-cpu-exponent"),
    pytest.param(asking(cpu="9223372036854775807"), [(INVALID, REQUESTS("cpu"))], id="VB2-cpu"),
    pytest.param(asking(cpu="1000001"), [(INVALID, REQUESTS("cpu"))], id="VB2-cpu-just-more"),
    pytest.param(asking(cpu="1M", memory="1E"), [], id="VB2-most"),
    pytest.param(asking(memory="2Ei"), [(INVALID, REQUESTS("memory"))], id="VB2-memory"),
    pytest.param(
        asking(**{"example.com/gpu": "1e19"}),
        [(INVALID, REQUESTS("example.com/gpu"))],
        id="VB2-device",
    ),
    *(
        pytest.param(ending(seconds), [(INVALID, GRACE)], id=f"VB4-{seconds}")
        for seconds in (86_401, 31_536_000, 9_223_372_037, 2**63 - 1)
    ),
    *(pytest.param(ending(seconds), [], id=f"VB4-{seconds}") for seconds in (-1, 0, 86_400)),
    pytest.param(
        raw_pod(annotations={"kueue.x-k8s.io/junk": "ü" * 2049}),
        [(INVALID, ANNOTATION("kueue.x-k8s.io/junk"))],
        id="VB1-bytes",
    ),
    pytest.param(raw_pod(annotations={"kueue.x-k8s.io/junk": "x" * 4096}), [], id="VB1-most"),
    pytest.param(group(total=None), [(REQUIRED, ANNOTATION(T))], id="W-35-VC10"),
    pytest.param(both({}, {T: "3"}), [(REQUIRED, LABEL(G))], id="W-36-VC8"),
    pytest.param(group(total="0"), [(INVALID, ANNOTATION(T))], id="W-37-VC11"),
    pytest.param(group(total=""), [(INVALID, ANNOTATION(T))], id="W-38-VC11"),
    pytest.param(group("notAdns1123Subdomain*"), [(INVALID, LABEL(G))], id="W-39-VC9"),
    pytest.param(both({}, {names.TOPOLOGY_REQUIRED: "cloud.com/block"}), [], id="W-40"),
    pytest.param(
        both({}, {names.TOPOLOGY_REQUIRED: "a", names.TOPOLOGY_PREFERRED: "a"}),
        [(INVALID, "metadata.annotations")],
        id="W-41-VC12",
    ),
    pytest.param(both({P: "w"}, {}), [], id="W-42"),
    pytest.param(both({P: "g", G: "g"}, {T: "3"}), [], id="W-43"),
    pytest.param(both({P: "w", G: "g"}, {T: "3"}), [(INVALID, LABEL(P))], id="W-44-VC18"),
    pytest.param(both({}, {P: "w"}), [], id="W-45"),
    pytest.param(both({P: "w"}, {"x": "y"}), [], id="W-46"),
    pytest.param(both({P: "NOT VALID"}, {P: "w"}), [], id="W-47-label-ignored"),
    pytest.param(both({}, {P: "g", G: "g", T: "3"}), [], id="W-48"),
    pytest.param(both({}, {P: "w", G: "g", T: "3"}), [(INVALID, ANNOTATION(P))], id="W-49"),
    pytest.param(both({P: "w"}, {G: "g", T: "3"}), [(INVALID, LABEL(P))], id="W-50"),
    pytest.param(both({G: "g"}, {P: "w", T: "3"}), [(INVALID, ANNOTATION(P))], id="W-51"),
    pytest.param(group("group name"), [(INVALID, LABEL(G))], id="W-52-W-53"),
    pytest.param(both({}, {G: "group name", T: "3"}), [(INVALID, ANNOTATION(G))], id="W-54"),
    pytest.param(both({G: "Bad Label"}, {G: "g", T: "3"}), [], id="W-55-label-ignored"),
    pytest.param(both({Q: "Not_Valid"}, {}), [(INVALID, LABEL(Q))], id="VC1"),
    pytest.param(both({Q: ""}, {}), [(INVALID, LABEL(Q))], id="VC1-empty"),
    pytest.param(both({P: ""}, {}), [(INVALID, LABEL(P))], id="VC2-empty-label"),
    pytest.param(both({}, {P: "Bad!"}), [(INVALID, ANNOTATION(P))], id="VC2-annotation"),
    pytest.param(
        both({names.MAX_EXEC_SECONDS: "1h"}, {}),
        [(INVALID, LABEL(names.MAX_EXEC_SECONDS))],
        id="VC3",
    ),
    pytest.param(
        both({names.MAX_EXEC_SECONDS: "0"}, {}),
        [(INVALID, LABEL(names.MAX_EXEC_SECONDS))],
        id="VC4",
    ),
    pytest.param(both({names.MAX_EXEC_SECONDS: "60"}, {}), [], id="VC4-ok"),
    pytest.param(both({names.MAX_EXEC_SECONDS: "2147483647"}, {}), [], id="VC4-most"),
    pytest.param(
        both({names.MAX_EXEC_SECONDS: "2147483648"}, {}),
        [(INVALID, LABEL(names.MAX_EXEC_SECONDS))],
        id="VC4-more",
    ),
    *(
        pytest.param(
            both({G: "g", names.POD_GROUP_ROLE: "a"}, {key: text}),
            [] if text == "18" else [(INVALID, ANNOTATION(key))],
            id=f"VB567-{key[-5:]}-{text}",
        )
        for key in (names.POD_GROUP_COUNT, names.POD_GROUP_ROLES, names.POD_GROUP_ROLE_COUNT)
        for text in ("-1", "0", "x", "2147483648", "9" * 19, "18")
    ),
    pytest.param(
        with_spec(overhead={"cpu": "2M"}), [(INVALID, "spec.overhead[cpu]")], id="VB2-overhead"
    ),
    pytest.param(
        with_spec(resources={"requests": {"memory": "2E"}}),
        [(INVALID, "spec.resources.requests[memory]")],
        id="VB2-pod-level",
    ),
    pytest.param(with_spec(resources={"limits": {"memory": "2E"}}), [], id="VB2-limits"),
    pytest.param(
        both({}, {names.ELASTIC_JOB: "true"}),
        [(FORBIDDEN, ANNOTATION(names.ELASTIC_JOB))],
        id="VC5",
    ),
    *(
        pytest.param(
            both({}, {names.ADMISSION_GATED_BY: text}),
            [(INVALID, ANNOTATION(names.ADMISSION_GATED_BY))],
            id=f"VC6-{i}",
        )
        for i, text in enumerate(
            [
                "a,,b",
                ",",
                " ",
                "a b",
                "x.io/a,x.io/a",
                "x.io/a, x.io/a",
                "x/",
                "/y",
                "a",
                "X.io/a",
                "x.io/a,x.io/b c",
                f"x.io/{'a' * 59}",
                "x.io/ü",
                "x.io/a\n",
                ",".join(f"x.io/{n:020}" for n in range(40)),
            ]
        )
    ),
    *(
        pytest.param(both({}, {names.ADMISSION_GATED_BY: text}), [], id=f"VC6-ok-{i}")
        for i, text in enumerate(["x/y/z", " x.io/a , x.io/b", f"x.io/{'a' * 58}", "x.io/(a)+b;c"])
    ),
    pytest.param(both({}, {names.ADMISSION_GATED_BY: "x.io/a,x.io/b"}), [], id="VC6-ok"),
    pytest.param(both({}, {names.ADMISSION_GATED_BY: ""}), [], id="VC6-empty"),
    pytest.param(
        both({names.MANAGED_LABEL: "yes"}, {}),
        [(FORBIDDEN, LABEL(names.MANAGED_LABEL))],
        id="VC7",
    ),
    *(
        pytest.param(group(total=text), [(INVALID, ANNOTATION(T))], id=f"VC11-{text[:12]!r}")
        for text in ["x", "-1", "1.5", "1_0", " 3", "٣", "99999999999999999999", "2147483648"]
    ),
    pytest.param(group(total="+3"), [], id="VC11-plus-as-in-go"),
    *(
        pytest.param(both({}, {key: "no name!"}), [(INVALID, ANNOTATION(key))], id=f"VC13-{i}")
        for i, key in enumerate([names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED])
    ),
    pytest.param(
        both({}, {names.SLICE_REQUIRED: "a/b/c", names.SLICE_SIZE: "1"}),
        [(INVALID, ANNOTATION(names.SLICE_REQUIRED))],
        id="VC13-slice",
    ),
    pytest.param(
        both({}, {names.TOPOLOGY_UNCONSTRAINED: "yes"}),
        [(INVALID, ANNOTATION(names.TOPOLOGY_UNCONSTRAINED))],
        id="VC14",
    ),
    pytest.param(
        both({}, {names.SLICE_REQUIRED: "a", names.SLICE_SIZE: "0"}),
        [(INVALID, ANNOTATION(names.SLICE_SIZE))],
        id="VC15-size",
    ),
    pytest.param(
        both({}, {names.SLICE_REQUIRED: "a"}),
        [(REQUIRED, ANNOTATION(names.SLICE_SIZE))],
        id="VC15-size-missing",
    ),
    pytest.param(
        both({}, {names.SLICE_SIZE: "2"}),
        [(FORBIDDEN, ANNOTATION(names.SLICE_SIZE))],
        id="VC15-size-alone",
    ),
    pytest.param(
        both({}, {names.PODSET_GROUP_NAME: "1"}),
        [
            (INVALID, ANNOTATION(names.PODSET_GROUP_NAME)),
            (FORBIDDEN, ANNOTATION(names.PODSET_GROUP_NAME)),
        ],
        id="VC16",
    ),
    pytest.param(
        both(
            {},
            {
                names.PODSET_GROUP_NAME: "pg",
                names.TOPOLOGY_REQUIRED: "a",
                names.SLICE_REQUIRED: "a",
                names.SLICE_SIZE: "1",
            },
        ),
        [(FORBIDDEN, ANNOTATION(names.PODSET_GROUP_NAME))],
        id="VC16-with-slices",
    ),
    pytest.param(
        both({}, {names.PODSET_GROUP_NAME: "pg", names.TOPOLOGY_REQUIRED: "a"}), [], id="VC16-ok"
    ),
    pytest.param(
        both({}, {names.SLICE_CONSTRAINTS: "[]"}),
        [(INVALID, ANNOTATION(names.SLICE_CONSTRAINTS))],
        id="VC17-none",
    ),
    pytest.param(
        both({}, {names.TOPOLOGY_UNCONSTRAINED: "False"}),
        [(INVALID, ANNOTATION(names.TOPOLOGY_UNCONSTRAINED))],
        id="VB3-unconstrained",
    ),
    pytest.param(both({}, {names.TOPOLOGY_UNCONSTRAINED: "T"}), [], id="VC14-ok"),
    *(
        pytest.param(
            both(labels, {names.SLICE_REQUIRED: "a", names.SLICE_SIZE: size, **notes}),
            [(INVALID, ANNOTATION(names.SLICE_SIZE))] if bad else [],
            id=f"VB3-{size}-of-{notes.get(T, 'one')}",
        )
        for labels, notes, size, bad in [
            ({}, {}, "1", False),
            ({}, {}, "2", True),
            ({G: "g"}, {T: "4"}, "4", False),
            ({G: "g"}, {T: "4"}, "5", True),
        ]
    ),
    pytest.param(
        both({names.MANAGED_LABEL: "x", Q: "Q"}, {T: "2", names.ELASTIC_JOB: ""}),
        [
            (INVALID, LABEL(Q)),
            (FORBIDDEN, ANNOTATION(names.ELASTIC_JOB)),
            (FORBIDDEN, LABEL(names.MANAGED_LABEL)),
            (REQUIRED, LABEL(G)),
        ],
        id="all-errors-at-once",
    ),
    pytest.param(raw_pod(), [], id="plain-pod"),
    # Bounds and dialects of our own.
    pytest.param(
        both({}, {names.ROLE_HASH: "Leader"}),
        [(INVALID, ANNOTATION(names.ROLE_HASH))],
        id="role-hash-upper-case",
    ),
    pytest.param(
        both({}, {names.POD_GROUP_SETS: "x" * 270_000}),
        [(REQUIRED, LABEL(G)), (INVALID, ANNOTATION(names.POD_GROUP_SETS))],
        id="oversized-group-sets",
    ),
    pytest.param(
        both({G: "g"}, {names.POD_GROUP_SETS: "- name: d" + " # é" * 40_000}),
        [],
        id="large-group-sets",
    ),
    pytest.param(
        both({}, {f"{names.PROVREQ_PREFIX}x": "é" * 2049}),
        [(INVALID, ANNOTATION(f"{names.PROVREQ_PREFIX}x"))],
        id="oversized-annotation",
    ),
    pytest.param(both({}, {"example.com/big": "x" * 70_000}), [], id="foreign-big-annotation"),
    pytest.param(
        group(**{names.POD_INDEX: "3"}), [(INVALID, LABEL(names.POD_INDEX))], id="index-too-large"
    ),
    pytest.param(
        group(**{names.POD_INDEX: ""}), [(INVALID, LABEL(names.POD_INDEX))], id="index-empty"
    ),
    pytest.param(group(**{names.POD_INDEX: "2"}), [], id="index-ok"),
    pytest.param(both({G: "g"}, {names.POD_GROUP_COUNT: "10"}), [], id="B10-count"),
    pytest.param(
        both({G: "g"}, {names.POD_GROUP_COUNT: "ten"}),
        [(INVALID, ANNOTATION(names.POD_GROUP_COUNT))],
        id="B10-bad-count",
    ),
    pytest.param(
        both({}, {names.POD_GROUP_COUNT: "10"}), [(REQUIRED, LABEL(G))], id="B10-count-without-name"
    ),
    pytest.param(
        both(
            {G: "g", names.POD_GROUP_ROLE: "driver"},
            {names.POD_GROUP_ROLES: "2", names.POD_GROUP_ROLE_COUNT: "1"},
        ),
        [],
        id="B10-roles",
    ),
    pytest.param(
        both({G: "g", names.POD_GROUP_ROLE: "Driver_1"}, {names.POD_GROUP_ROLES: "19"}),
        [(INVALID, ANNOTATION(names.POD_GROUP_ROLES)), (INVALID, LABEL(names.POD_GROUP_ROLE))],
        id="B10-bad-roles",
    ),
    pytest.param(
        both({G: "g"}, {names.POD_GROUP_ROLES: "2"}),
        [(REQUIRED, LABEL(names.POD_GROUP_ROLE))],
        id="B10-role-missing",
    ),
    pytest.param(both({G: "g"}, {names.POD_GROUP_SETS: SETS}), [], id="B9-driver"),
    pytest.param(
        both({G: "g"}, {names.POD_GROUP_SETS: "[]"}),
        [(INVALID, ANNOTATION(names.POD_GROUP_SETS))],
        id="B9-no-sets",
    ),
    pytest.param(
        both({G: "g", names.POD_GROUP_ROLE: "worker"}, {names.POD_GROUP_SETS: SETS}),
        [],
        id="B9-role-of-a-declared-set",
    ),
    pytest.param(
        both({G: "g", names.POD_GROUP_ROLE: "wrker"}, {names.POD_GROUP_SETS: SETS}),
        [(INVALID, LABEL(names.POD_GROUP_ROLE))],
        id="B9-role-of-no-set",
    ),
    pytest.param(
        both({G: "g"}, {names.POD_GROUP_SETS: "- {name: a}\n- {name: b}"}),
        [(REQUIRED, LABEL(names.POD_GROUP_ROLE))],
        id="B9-driver-of-two-sets-without-template",
    ),
    pytest.param(
        both({}, {names.POD_GROUP_SETS: SETS}), [(REQUIRED, LABEL(G))], id="B9-sets-without-name"
    ),
    pytest.param(
        both({G: "g"}, {names.POD_GROUP_SETS: "- {name: A, count: 0}"}),
        [(INVALID, ANNOTATION(names.POD_GROUP_SETS))] * 2,
        id="B9-every-mistake",
    ),
    pytest.param(both({G: "g"}, {}), [(REQUIRED, ANNOTATION(T))], id="VC10-still-refused"),
    pytest.param(both({G: "g", names.POD_GROUP_ROLE: "worker"}, {}), [], id="B9-worker"),
]


@pytest.mark.parametrize(("raw", "errors"), CREATE)
def test_create(raw: RAW, errors: Errors) -> None:
    assert found(created(raw)) == errors


def test_create_texts() -> None:
    def texts(raw: RAW) -> str:
        return "; ".join(str(e) for e in created(raw).errors)

    assert "managed label value can only be 'true'" in texts(both({names.MANAGED_LABEL: "x"}, {}))
    assert "should be greater than 0" in texts(both({names.MAX_EXEC_SECONDS: "-1"}, {}))
    assert "must be a boolean value" in texts(both({}, {names.TOPOLOGY_UNCONSTRAINED: "?"}))
    assert "prebuilt workload and pod group should be equal" in texts(
        both({P: "w", G: "g"}, {T: "1"})
    )
    assert texts(group(total="0")).startswith(
        'metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: Invalid value: "0": '
    )
    long = texts(both({}, {names.ROLE_HASH: "X\n" * 5000}))
    assert len(long) < 600
    assert "(10000 chars)" in long


def test_a_mistake_in_sets_is_told_with_line_column_and_field() -> None:
    text = SETS.replace("cpu: 1", "cpu: 1x")
    (error,) = created(both({G: "g"}, {names.POD_GROUP_SETS: text})).errors
    assert error.path == ANNOTATION(names.POD_GROUP_SETS)
    assert "line 7, column 32: [1].template.spec.containers[0].requests.cpu: " in error.detail
    assert "1x" in error.value


def test_multi_layer_topology() -> None:
    key = names.SLICE_CONSTRAINTS
    good = '[{"topology": "a/rack", "size": 4}, {"topology": "host", "size": 2}]'
    four = {G: "g"}, {T: "4"}
    assert found(created(both(four[0], {key: good, **four[1]}))) == []
    single = {names.SLICE_REQUIRED: "a", names.SLICE_SIZE: "1"}
    beside = created(both(four[0], {key: good, **four[1], **single}))
    assert found(beside) == [(FORBIDDEN, ANNOTATION(key))]
    assert found(created(both({}, {key: good}))) == [(INVALID, ANNOTATION(key))], "one pod alone"
    layer = '{"topology": "%s", "size": %d}'
    for bad in (
        "",
        "[]",
        "{}",
        "[" * 100_000,
        f"[{layer % ('a', 0)}]",
        f"[{layer % ('no name!', 1)}]",
        f"[{layer % ('a', 4)}, {layer % ('b', 3)}]",
        f"[{layer % ('a', 4)}, {layer % ('a', 2)}]",
        f"[{', '.join(layer % (name, 1) for name in 'abcd')}]",
    ):
        text = both(four[0], {key: bad, **four[1]})
        assert (INVALID, ANNOTATION(key)) in found(created(text)), bad


@pytest.mark.parity("W-34")
def test_warnings_on_create() -> None:
    owned = raw_pod(labels={Q: "q", **MANAGED}, owner=JOB)
    assert created(owned).warnings == (OWNER_WARNING,)  # W-34
    assert created(owned).allowed
    assert created(owned, WebhookPolicy(enabled_kinds=())).warnings == ()
    mixed = created(both({G: "g", Q: "q"}, {T: "2", names.POD_GROUP_COUNT: "2"}))
    assert mixed.allowed
    assert "several dialects" in mixed.warnings[0]
    assert "names no queue" in created(both({G: "g"}, {T: "2"})).warnings[0]
    assert not any("names no queue" in one for one in created(group()).warnings), "it is gated"
    assert created(both({G: "g", Q: "q"}, {T: "2"})).warnings == ()


def ungated(labels: dict[str, str], annotations: dict[str, str] | None = None) -> RAW:
    return raw_pod(labels=labels, annotations=annotations, phase="Running")


def gated(labels: dict[str, str], annotations: dict[str, str] | None = None) -> RAW:
    return raw_pod(labels=labels, annotations=annotations, gated=True)


def held(raw: RAW, *finalizers: str, going: bool = False) -> RAW:
    """A pod in its queue: with the label, and our finalizer or those given."""
    metadata = raw["metadata"]
    metadata["labels"] = {Q: "q", **MANAGED} | (metadata.get("labels") or {})
    metadata["finalizers"] = list(finalizers or (names.POD_FINALIZER,))
    if going:
        metadata["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    return raw


def without_label(raw: RAW) -> RAW:
    del raw["metadata"]["labels"][names.MANAGED_LABEL]
    return raw


OURS, GATE = "metadata.finalizers", "spec.schedulingGates"
R = names.RETRIABLE_IN_GROUP
X = names.MAX_EXEC_SECONDS
C = names.PRIORITY_CLASS
B = names.ADMISSION_GATED_BY
PARENT = {names.SUSPENDING_PARENT: "x"}
UPDATE: list[Any] = [
    pytest.param(
        with_spec(tolerations=TAINTS),
        with_spec(tolerations=MORE_TAINTS),
        [(INVALID, "spec.tolerations")],
        id="VB13-update",
    ),
    pytest.param(
        with_spec(tolerations=MORE_TAINTS, **choosing(3000)),
        with_spec(tolerations=MORE_TAINTS, **choosing(3000)),
        [],
        id="VB13-VB14-update-leaves",
    ),
    pytest.param(
        with_spec(), with_spec(**choosing(3000)), [(INVALID, AFFINITY)], id="VB14-update"
    ),
    pytest.param(
        bearing(finalizers=HOLDERS),
        bearing(finalizers=[*HOLDERS, "a.io/b"]),
        [(INVALID, "metadata.finalizers")],
        id="VB15-update",
    ),
    pytest.param(
        raw_pod(), held(raw_pod()) | {"metadata": {**held(raw_pod())["metadata"], "labels": {}}},
        [(FORBIDDEN, OURS)], id="VK13-unlabelled",
    ),
    pytest.param(
        both({Q: "q"}, {}, gated=True),
        both(MANY | {Q: "q"}, {}, gated=True),
        [(INVALID, "metadata.labels")],
        id="VB9-update",
    ),
    pytest.param(
        both(MANY | {Q: "q", "a": "b"}, {}, gated=True),
        both(MANY | {Q: "q"}, {}, gated=True),
        [],
        id="VB9-update-to-fewer",
    ),
    pytest.param(
        both({Q: "q"}, {}, gated=True),
        both({Q: "q"}, MANY | {"a": "b"}, gated=True),
        [(INVALID, "metadata.annotations")],
        id="VB10-update",
    ),
    pytest.param(gated({}), group(total=None), [(REQUIRED, ANNOTATION(T))], id="W-59"),
    pytest.param(
        group(total=None), group(total=None), [(REQUIRED, ANNOTATION(T))], id="W-59-unchanged"
    ),
    pytest.param(
        both({G: "g"}, {names.POD_GROUP_SETS: SETS}),
        both({G: "g"}, {names.POD_GROUP_SETS: "[]"}),
        [(INVALID, ANNOTATION(names.POD_GROUP_SETS))],
        id="B9-made-bad",
    ),
    pytest.param(
        both({G: "g"}, {names.POD_GROUP_SETS: "[]"}),
        both({G: "g"}, {names.POD_GROUP_SETS: "[]"}),
        [],
        id="B9-was-bad",
    ),
    pytest.param(group(), group(total="0"), [(INVALID, ANNOTATION(T))], id="W-60"),
    pytest.param(group(), group(total=""), [(INVALID, ANNOTATION(T))], id="W-61"),
    pytest.param(group("a"), group("b"), [(INVALID, LABEL(G))], id="W-62-W-63-VU11"),
    pytest.param(
        gated({}, {G: "a", T: "1"}), gated({}, {G: "b", T: "1"}), [(INVALID, ANNOTATION(G))],
        id="W-64-VU11",
    ),
    pytest.param(
        group("a", "1"), gated({}, {G: "b", T: "1"}), [(INVALID, ANNOTATION(G))], id="W-65"
    ),
    pytest.param(gated({}, {G: "a", T: "1"}), group("b", "1"), [(INVALID, LABEL(G))], id="W-66"),
    pytest.param(group("a", "1"), gated({}, {G: "a", T: "1"}), [], id="W-67"),
    pytest.param(gated({}), group(), [], id="W-68"),
    pytest.param(
        gated({G: "g"}, {T: "1", R: "false"}), gated({G: "g"}, {T: "1"}),
        [(FORBIDDEN, ANNOTATION(R))], id="W-69-VU10",
    ),
    pytest.param(
        gated({G: "g"}, {T: "1", R: "false"}), gated({G: "g"}, {T: "1", R: "true"}),
        [(FORBIDDEN, ANNOTATION(R))], id="W-70-VU10",
    ),
    pytest.param(gated({}, {R: "false"}), gated({}), [], id="VU10-single-pod"),
    pytest.param(
        gated({G: "g", P: "g"}, {T: "1"}), gated({G: "g", P: "w"}, {T: "1"}),
        [(INVALID, LABEL(P))], id="W-71",
    ),
    pytest.param(
        gated({}, {P: "g", G: "g", T: "1"}), gated({}, {P: "g", G: "g", T: "1", "x": "y"}), [],
        id="W-72",
    ),
    pytest.param(
        gated({}, {P: "g", G: "g", T: "1"}), gated({}, {P: "w", G: "g", T: "1"}),
        [(INVALID, ANNOTATION(P))], id="W-73",
    ),
    pytest.param(ungated({Q: "a"}), ungated({Q: "b"}), [(INVALID, LABEL(Q))], id="VU1"),
    pytest.param(gated({Q: "a"}), gated({Q: "b"}), [], id="VU1-gated"),
    pytest.param(
        ungated({Q: "a"}), raw_pod(labels={Q: "b"}, phase="Succeeded"), [], id="VU1-succeeded"
    ),
    pytest.param(gated({Q: "a", **MANAGED}), gated({**MANAGED}), [], id="VU2-no-default-queue"),
    pytest.param(ungated({P: "a"}), ungated({P: "b"}), [(INVALID, LABEL(P))], id="VU3"),
    pytest.param(gated({P: "a"}), gated({P: "B"}), [(INVALID, LABEL(P))], id="VU3-gated-form"),
    pytest.param(ungated({P: "a"}), ungated({}, {P: "a"}), [], id="VU3-moved"),
    pytest.param(gated({X: "1"}), gated({X: "2"}), [], id="VU4-both-gated"),
    pytest.param(gated({X: "1"}), gated({X: "soon"}), [], id="VU4-no-format-check"),
    pytest.param(gated({X: "1"}), ungated({X: "2"}), [(INVALID, LABEL(X))], id="VU4"),
    pytest.param(ungated({}), ungated({C: "a"}), [(INVALID, LABEL(C))], id="VU5"),
    pytest.param(gated({}), gated({C: "a"}), [], id="VU5-gated"),
    pytest.param(gated({C: "a"}), gated({}), [(INVALID, LABEL(C))], id="VU6"),
    pytest.param(ungated({C: "a"}), ungated({C: "b"}), [], id="VU6-changed"),
    pytest.param(
        gated({}), gated({}, {names.ELASTIC_JOB: "true"}),
        [(INVALID, ANNOTATION(names.ELASTIC_JOB))], id="VU7",
    ),
    pytest.param(gated({}), gated({}, {B: "x.io/a"}), [(FORBIDDEN, ANNOTATION(B))], id="VU8-add"),
    pytest.param(
        gated({}, {B: "x.io/a,x.io/b"}), gated({}, {B: "x.io/b"}), [], id="VU8-removed"
    ),
    pytest.param(
        gated({}, {B: "x.io/a"}), gated({}, {B: "x.io/b"}), [(FORBIDDEN, ANNOTATION(B))],
        id="VU8-other",
    ),
    pytest.param(
        gated({}, {B: "x.io/a,x.io/b"}), gated({}, {B: "x.io/b, x.io/a"}), [], id="VU8-moved"
    ),
    pytest.param(gated({}, {B: ""}), gated({}, {B: "x.io/a"}), [(FORBIDDEN, ANNOTATION(B))],
                 id="VU8-add-to-empty"),
    pytest.param(ungated({}, {B: "x.io/a"}), ungated({}), [], id="VU8-all-removed"),
    pytest.param(
        gated({}, {B: "no name"}), gated({"a": "b"}, {B: "no name"}), [], id="VC6-was-bad"
    ),
    pytest.param(
        gated({}, {B: "x.io/a,,"}), gated({}, {B: "x.io/a,"}), [(INVALID, ANNOTATION(B))],
        id="VC6-made-less-bad",
    ),
    pytest.param(
        gated({Q: "q", **MANAGED}), gated({Q: "q", names.MANAGED_LABEL: "no"}),
        [(FORBIDDEN, LABEL(names.MANAGED_LABEL))], id="VU9",
    ),
    pytest.param(
        group("g"), gated({}, {T: "3"}), [(INVALID, LABEL(G)), (REQUIRED, LABEL(G))],
        id="VU11-removed",
    ),
    pytest.param(group(total="3"), group(total="4"), [], id="total-count-is-mutable"),
    # Our own bounds ratchet: what is there already is not held against later changes.
    pytest.param(
        gated({}, {names.ROLE_HASH: "UP"}), gated({"a": "b"}, {names.ROLE_HASH: "UP"}), [],
        id="role-hash-unchanged",
    ),
    pytest.param(
        gated({}), gated({}, {names.ROLE_HASH: "UP"}), [(INVALID, ANNOTATION(names.ROLE_HASH))],
        id="role-hash-changed",
    ),
    pytest.param(
        group(**{names.POD_INDEX: "9"}), group(**{names.POD_INDEX: "9", "a": "b"}), [],
        id="index-unchanged",
    ),
    pytest.param(
        group(), group(**{names.POD_INDEX: "9"}), [(INVALID, LABEL(names.POD_INDEX))],
        id="index-changed",
    ),
    *(
        pytest.param(
            held(pod(), going=going),
            without_label(held(pod(), going=going)),
            [(FORBIDDEN, LABEL(names.MANAGED_LABEL))],
            id=f"VK1-{name}{'-going' * going}",
        )
        for name, pod in (
            ("waiting", lambda: gated({})),
            ("running", lambda: ungated({})),
            ("ended", lambda: raw_pod(phase="Failed")),
        )
        for going in (False, True)
    ),
    pytest.param(
        held(ungated({}), going=True),
        held(ungated({names.MANAGED_LABEL: "false"}), going=True),
        [(FORBIDDEN, LABEL(names.MANAGED_LABEL))],
        id="VK1-going-another-value",
    ),
    pytest.param(
        held(ungated({}), "example.com/f"),
        without_label(held(ungated({}), "example.com/f")),
        [(FORBIDDEN, LABEL(names.MANAGED_LABEL))],
        id="VK2-running-without-finalizer",
    ),
    pytest.param(
        gated(MANAGED), gated({}), [(FORBIDDEN, LABEL(names.MANAGED_LABEL))],
        id="VK14-the-last-mark-at-the-gate",
    ),
    pytest.param(
        gated({Q: "q"}), gated({}), [(FORBIDDEN, LABEL(Q))], id="VK15-the-last-mark-at-the-gate"
    ),
    pytest.param(
        gated({Q: "q", **MANAGED}), gated({**MANAGED}), [], id="VK15-another-mark-is-left"
    ),
    pytest.param(
        held(raw_pod(phase="Succeeded"), "example.com/f"),
        without_label(held(raw_pod(phase="Succeeded"), "example.com/f")),
        [],
        id="VK1-ended-and-let-go",
    ),
    pytest.param(
        held(ungated({})), held(ungated({}), "example.com/f"), [(FORBIDDEN, OURS)], id="VK3-running"
    ),
    pytest.param(
        held(gated({})), held(gated({}), "example.com/f"), [(FORBIDDEN, OURS)], id="VK3-waiting"
    ),
    pytest.param(
        held(raw_pod(phase="Failed")), held(raw_pod(phase="Failed"), "example.com/f"), [],
        id="VK3-ended",
    ),
    pytest.param(
        held(ungated({}), going=True), held(ungated({}), "example.com/f", going=True), [],
        id="VK3-going",
    ),
    pytest.param(
        held(ungated({}), names.POD_FINALIZER, "example.com/f"), held(ungated({})), [],
        id="VK3-somebody-elses",
    ),
    pytest.param(held(gated({})), held(ungated({})), [(FORBIDDEN, GATE)], id="VK4-waiting"),
    pytest.param(
        held(gated({}), going=True), held(ungated({}), going=True), [(FORBIDDEN, GATE)],
        id="VK4-going",
    ),
    pytest.param(gated({}), ungated({}), [], id="VK4-a-gate-of-its-own"),
    pytest.param(gated({Q: "q"}), ungated({Q: "q"}), [(FORBIDDEN, GATE)], id="VK5-queued-later"),
    pytest.param(
        gated({}, PARENT), ungated({}, PARENT), [(FORBIDDEN, GATE)], id="VK6-of-its-parent"
    ),
    pytest.param(
        gated({}, PARENT), gated({}), [(FORBIDDEN, ANNOTATION(names.SUSPENDING_PARENT))],
        id="VK7-parent-off",
    ),
    pytest.param(
        ungated({}), ungated(MANAGED), [(FORBIDDEN, LABEL(names.MANAGED_LABEL))],
        id="VK8-label-onto-what-runs",
    ),
    pytest.param(gated({}), gated(MANAGED), [], id="VK8-label-onto-what-waits"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "errors"), UPDATE)
async def test_update(old: RAW, new: RAW, errors: Errors) -> None:
    assert found(await updated(old, new)) == errors


@pytest.mark.parametrize(
    ("old", "new"), [p.values[:2] for p in UPDATE if (p.id or "").startswith("VK")]
)
async def test_gatelog_itself_takes_off_what_is_its_own(old: RAW, new: RAW) -> None:
    assert found(await updated(old, new, by_gatelog=True)) == []


async def test_queue_may_not_be_dropped_where_a_default_queue_exists() -> None:
    cluster = Cluster()
    cluster.queues.add(("ns", "default"))
    verdict = await updated(gated({Q: "a", **MANAGED}), gated({**MANAGED}), cluster)  # VU2
    assert found(verdict) == [(INVALID, LABEL(Q))]
    assert "queue-name must not be empty in namespace with default queue" in str(verdict.errors[0])
    assert (await updated(gated({Q: "a"}), gated({Q: "b"}), cluster)).allowed
    assert cluster.asked == ["queue ns/default"]


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        pytest.param({Q: "q", **MANAGED}, {Q: "q", **MANAGED}, True, id="W-56"),
        pytest.param({Q: "q"}, {Q: "q", **MANAGED}, True, id="W-57"),
        pytest.param({Q: "q", **MANAGED}, {Q: "q"}, False, id="label-dropped"),
    ],
)
@pytest.mark.parity("W-58")
async def test_owner_warning_on_update(
    old: dict[str, str], new: dict[str, str], warned: bool
) -> None:
    verdict = await updated(raw_pod(labels=old, owner=JOB), raw_pod(labels=new, owner=JOB))
    assert verdict.warnings == ((OWNER_WARNING,) if warned else ())
    parent = {names.SUSPENDING_PARENT: "x"}
    silent = await updated(
        raw_pod(labels=old, owner=JOB), raw_pod(labels=new, owner=JOB, annotations=parent)
    )
    assert silent.warnings == ()  # W-58


@pytest.mark.parity("C-07")
async def test_who_takes_the_managed_label_off_a_waiting_pod_is_warned() -> None:
    gated = {"schedulingGates": [{"name": names.ADMISSION_GATE}]}
    old, new = raw_pod(labels={Q: "q", **MANAGED}), raw_pod(labels={Q: "q"})
    assert (await updated(old, new)).warnings == ()
    for one in (old, new):
        one["spec"] |= gated
    verdict = await updated(old, new)
    assert verdict.allowed and "put the label back" in verdict.warnings[0]
    assert (await updated(new, new)).warnings == ()


async def test_a_pod_being_deleted_keeps_its_bad_metadata_but_not_a_new_group() -> None:
    old, new = group(total=None), group(total=None)
    for raw in (old, new):
        raw["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
        raw["metadata"]["finalizers"] = [names.POD_FINALIZER]
    del new["metadata"]["finalizers"]
    assert (await updated(old, new)).allowed
    new["metadata"]["labels"][G] = "other"
    assert found(await updated(old, new)) == [(INVALID, LABEL(G))]


@pytest.mark.parametrize("recorded", recorded_reviews("CREATE"))
def test_recorded_creations_pass(recorded: RAW) -> None:
    assert created(recorded["request"]["object"]) == Verdict()


@pytest.mark.parametrize("recorded", recorded_reviews("UPDATE"))
async def test_recorded_updates_pass(recorded: RAW) -> None:
    request = recorded["request"]
    verdict = await updated(request["oldObject"], request["object"], by_gatelog=True)
    assert verdict == Verdict()


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {"metadata": []},
        {"metadata": {"labels": {"a": 1}}},
        {"metadata": {"annotations": "x"}},
        {"metadata": {"finalizers": {}}},
        {"metadata": {"ownerReferences": [{}]}},
        {"spec": {"schedulingGates": ["x"]}},
        {"status": {"phase": 1}},
    ],
)
def test_what_is_no_pod_is_refused_with_its_field(raw: Any) -> None:
    with pytest.raises(PodError, match="Pod"):
        read_pod(raw)
