"""The role from the bounded table is that of the whole pod, whatever is in it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.translate.fields import RefusedError
from ingest.translate.shapes import computed_role
from podgroup.model.roles import ShapeError, Variant, role_hash

TEXT = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=4)
MAPS = st.none() | st.dictionaries(TEXT, TEXT, max_size=2)
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "100m", 2]))
RESOURCES = st.none() | st.fixed_dictionaries({}, optional={"requests": st.none() | AMOUNTS})


def some(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({}, optional=fields)


CONTAINER = some(
    name=TEXT,
    image=TEXT,
    command=st.lists(TEXT, max_size=2),
    ports=st.none() | st.lists(st.just({"containerPort": 80}), max_size=1),
    resources=RESOURCES,
)
CONTAINERS = st.none() | st.lists(CONTAINER, max_size=3)
TOLERATIONS = st.none() | st.lists(st.just({"key": "a", "operator": "Exists"}), max_size=1)
POD = some(
    metadata=some(name=TEXT, labels=MAPS, annotations=MAPS),
    spec=some(
        containers=CONTAINERS,
        initContainers=CONTAINERS,
        nodeSelector=MAPS,
        overhead=st.none() | AMOUNTS,
        priority=st.none() | st.integers(-5, 5),
        runtimeClassName=st.none() | TEXT,
        preemptionPolicy=st.none() | TEXT,
        tolerations=TOLERATIONS,
        resources=RESOURCES,
        nodeName=TEXT,
        schedulingGates=st.lists(st.just({"name": "g"}), max_size=1),
    ),
    status=some(phase=TEXT),
)


@given(pod=POD, variant=st.sampled_from(["kueue", "kep-976"]), in_line=st.booleans())
def test_the_role_is_that_of_the_whole_pod(
    pod: dict[str, object], variant: Variant, in_line: bool
) -> None:
    found = {"type": "ADDED", "object": pod} if in_line else pod
    assert computed_role(msgspec.json.encode(found), variant) == role_hash(pod, variant)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "none"},
        {"containers": [1]},
        {"containers": [{"resources": {"requests": {"cpu": "much"}}}]},
        {"priority": "high"},
        {"tolerations": [{"key": 1}]},
    ],
)
def test_what_has_no_role_is_refused(spec: dict[str, object]) -> None:
    pod = {"spec": spec}
    with pytest.raises(ShapeError):
        role_hash(pod)
    with pytest.raises(RefusedError, match="no role can be computed") as refused:
        computed_role(msgspec.json.encode(pod), "kueue")
    assert refused.value.path == "spec"
