"""Role hashes: Kueue's vectors, Kueue's own annotations, and what may and may not matter."""

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podgroup.model import names
from podgroup.model.go_shapes import encode
from podgroup.model.roles import ShapeError, role_hash, role_of

RECORDINGS = Path(__file__).parents[1] / "recordings"
Pod = dict[str, Any]

DEFAULTS: Pod = {
    "priority": 0,
    "tolerations": [
        {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute",
         "tolerationSeconds": 300}
        for why in ("not-ready", "unreachable")
    ],
}  # fmt: skip


def pod(requests: Any, **spec: Any) -> Pod:
    resources = {} if requests is None else {"requests": requests}
    container = {"name": "c", "image": "img", "resources": resources}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(pod({}), "a9f06f3a", id="empty-requests"),
        pytest.param(pod({"cpu": "1"}), "dc85db45", id="cpu"),
        pytest.param(pod({"cpu": "1", "memory": "1Gi"}), "4ebdd4a6", id="cpu-memory"),
        pytest.param(pod(None), "7aa6c7b8", id="no-requests"),
        pytest.param(pod(None, **DEFAULTS), "bf90803c", id="defaulted-no-requests"),
        pytest.param(pod({"cpu": "1"}, **DEFAULTS), "4b0469f7", id="defaulted-cpu"),
        pytest.param(pod({"cpu": "100m"}, **DEFAULTS), "5949e52e", id="defaulted-100m"),
    ],
)
@pytest.mark.parity("U-16", "U-19", "B19")
def test_vectors(subject: Pod, expected: str) -> None:
    assert role_hash(subject) == expected


def created_pods() -> list[Any]:
    """Every pod a real Kueue hashed at creation, still as it was then: (recording, pod)."""
    found = []
    for item in json.loads((RECORDINGS / "admission_reviews.json").read_text()):
        if item["request"]["operation"] == "CREATE":
            found.append(("admission_reviews", item["request"]["object"]))
    for file in sorted(RECORDINGS.glob("*.jsonl.gz")):
        if file.name.startswith("api_exchanges"):
            continue
        with gzip.open(file, "rt") as lines:
            for line in lines:
                item = json.loads(line)
                if item["resource"] != "pods" or item["type"] != "ADDED":
                    continue
                gates = [g["name"] for g in item["object"]["spec"].get("schedulingGates", [])]
                annotations = item["object"]["metadata"].get("annotations", {})
                if names.ADMISSION_GATE in gates and names.ROLE_HASH in annotations:
                    found.append((file.name.split(".")[0], item["object"]))
    return found


@pytest.mark.parity("B19")
def test_hashes_of_a_real_kueue_are_reproduced() -> None:
    seen: dict[str, set[str]] = {}
    for recording, subject in created_pods():
        expected = subject["metadata"]["annotations"][names.ROLE_HASH]
        assert role_hash(subject) == expected, recording
        seen.setdefault(recording, set()).add(expected)
    assert len(seen["admission_reviews"]) == 1
    assert len(seen["nine_roles"]) == 9
    assert sum(len(hashes) for hashes in seen.values()) > 20


RICH = pod(
    {"cpu": "1"},
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "z", "operator": "In", "values": ["<&>"]}]}
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchFields": [{"key": "m", "operator": "Exists"}]}}
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "t",
                    "labelSelector": {"matchLabels": {"b": "2", "a": "1"}},
                    "namespaces": ["n"],
                }
            ]
        },
    },
    nodeSelector={"b": "1", "a": "2"},
    overhead={"cpu": "1000m"},
    runtimeClassName="gvisor",
    topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    ],
    resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}],
)


def test_bytes_follow_go() -> None:
    from podgroup.model.roles import _shape

    assert encode(_shape(RICH["spec"])).decode() == (
        '{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":'
        '{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":"In",'
        '"values":["\\u003c\\u0026\\u003e"]}]}]},'
        '"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":'
        '{"matchFields":[{"key":"m","operator":"Exists"}]}}]},"podAntiAffinity":'
        '{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":'
        '{"a":"1","b":"2"}},"namespaces":["n"],"topologyKey":"t"}]}},'
        '"containers":[{"ports":null,"resources":{"requests":{"cpu":"1"}}}],'
        '"initContainers":null,"nodeSelector":{"a":"2","b":"1"},"overhead":{"cpu":"1"},'
        '"priority":null,"resourceClaims":[{"name":"gpu","resourceClaimName":"c"}],'
        '"runtimeClassName":"gvisor","tolerations":null,"topologySpreadConstraints":'
        '[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule",'
        '"minDomains":2}]}'
    )
    port = {"containerPort": 80, "name": "http", "hostIP": "10.0.0.1", "protocol": "TCP"}
    spec = {"containers": [{"ports": [port, {"containerPort": 0}]}], "tolerations": []}
    text = encode(_shape(spec)).decode()
    assert (
        '"ports":[{"name":"http","containerPort":80,"protocol":"TCP","hostIP":"10.0.0.1"}' in text
    )
    assert ',{"containerPort":0}]' in text
    assert '"tolerations":[]' in text
    assert encode("a\u2028b\u2029c\x01") == b'"a\\u2028b\\u2029c\\u0001"'


def changed(change: Callable[[Pod], Any]) -> Pod:
    other = copy.deepcopy(pod({"cpu": "1"}))
    change(other)
    return other


SAME: dict[str, Callable[[Pod], Any]] = {
    "W-31-managed-label": lambda p: p["metadata"].update(labels={names.MANAGED_LABEL: "true"}),
    "W-32-volume-name": lambda p: p["spec"].update(volumes=[{"name": "v", "emptyDir": {}}]),
    "W-33-claim-of-a-volume": lambda p: p["spec"].update(
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]
    ),
    "name": lambda p: p["metadata"].update(name="q"),
    "env": lambda p: p["spec"]["containers"][0].update(env=[{"name": "A", "value": "b"}]),
    "limits": lambda p: p["spec"]["containers"][0]["resources"].update(limits={"cpu": "9"}),
    "quantity-spelling": lambda p: p["spec"]["containers"][0]["resources"].update(
        requests={"cpu": "1000m"}
    ),
    "gates": lambda p: p["spec"].update(schedulingGates=[{"name": "x"}]),
}
ONLY_KEP: dict[str, Callable[[Pod], Any]] = {
    "image": lambda p: p["spec"]["containers"][0].update(image="other"),
    "label": lambda p: p["metadata"].update(labels={"app": "x"}),
    "preemption-policy": lambda p: p["spec"].update(preemptionPolicy="Never"),
}
DIFFERENT: dict[str, Callable[[Pod], Any]] = {
    "U-18-pod-level-resources": lambda p: p["spec"].update(resources={"requests": {"cpu": "2"}}),
    "pod-level-limits-only": lambda p: p["spec"].update(resources={"limits": {"cpu": "2"}}),
    "requests": lambda p: p["spec"]["containers"][0]["resources"].update(requests={"cpu": "2"}),
    "port": lambda p: p["spec"]["containers"][0].update(ports=[{"containerPort": 1}]),
    "empty-tolerations": lambda p: p["spec"].update(tolerations=[]),
    "empty-selector": lambda p: p["spec"].update(nodeSelector={}),
    "priority": lambda p: p["spec"].update(priority=0),
    "init-container": lambda p: p["spec"].update(initContainers=[{"name": "i"}]),
    "runtime-class": lambda p: p["spec"].update(runtimeClassName="x"),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME.keys())
def test_what_does_not_matter(change: Callable[[Pod], Any]) -> None:
    assert role_hash(changed(change)) == role_hash(pod({"cpu": "1"})) == "dc85db45"
    assert role_hash(changed(change), "kep-976") == role_hash(pod({"cpu": "1"}), "kep-976")


@pytest.mark.parametrize("change", ONLY_KEP.values(), ids=ONLY_KEP.keys())
@pytest.mark.parity("B19")
def test_what_matters_to_the_kep_only(change: Callable[[Pod], Any]) -> None:
    assert role_hash(changed(change)) == "dc85db45"
    assert role_hash(changed(change), "kep-976") != role_hash(pod({"cpu": "1"}), "kep-976")


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT.keys())
@pytest.mark.parity("U-17")
def test_what_matters(change: Callable[[Pod], Any]) -> None:
    assert role_hash(changed(change)) != "dc85db45"
    assert role_hash(changed(change), "kep-976") != role_hash(pod({"cpu": "1"}), "kep-976")


def test_annotation_is_the_truth() -> None:
    subject = pod({"cpu": "1"})
    assert role_of(subject) == "dc85db45"
    subject["metadata"]["annotations"] = {names.ROLE_HASH: "Leader"}
    assert role_of(subject) == "Leader"
    subject["metadata"]["annotations"] = {names.ROLE_HASH: ""}
    assert role_of(subject) == ""


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"tolerations": "x"}, "spec.tolerations"),
        ({"containers": [{"resources": {"requests": {"cpu": "x"}}}]}, "spec.containers[0]."),
        ({"containers": [{"resources": {"requests": []}}]}, "spec.containers[0]."),
        ({"initContainers": [{}, {"ports": [{}]}]}, "spec.initContainers[1].ports"),
        ({"overhead": {"cpu": "1gb"}}, "spec.overhead"),
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector"),
        ({"resources": 1}, "spec.resources"),
        ({"nodeSelector": {"a": "\ud800"}}, "spec"),
    ],
)
def test_malformed_specs_are_refused_by_field(spec: Pod, field: str) -> None:
    with pytest.raises(ShapeError) as caught:
        role_hash({"spec": spec})
    assert str(caught.value).startswith(field)
