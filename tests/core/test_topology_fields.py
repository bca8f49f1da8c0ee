"""What pods ask of the topology, and how a Workload says it and where its pods go."""

from typing import Any

import pytest

from podgroup.model import names
from podgroup.model.topology import (
    NOTHING_ASKED,
    SliceLayer,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
    requested,
)
from podgroup.model.topology_json import MOST, read, read_request, request, written

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
LAYERS = f'[{{"topology": "{RACK}", "size": 4}}, {{"topology": "{HOST}", "size": 2}}]'


@pytest.mark.parametrize(
    ("annotations", "asked"),
    [
        ({}, NOTHING_ASKED),
        ({names.TOPOLOGY_REQUIRED: RACK}, TopologyRequest(required=RACK)),
        ({names.TOPOLOGY_PREFERRED: RACK}, TopologyRequest(preferred=RACK)),
        ({names.TOPOLOGY_UNCONSTRAINED: "T"}, TopologyRequest(unconstrained=True)),
        ({names.TOPOLOGY_UNCONSTRAINED: "false"}, TopologyRequest(unconstrained=False)),
        ({names.TOPOLOGY_UNCONSTRAINED: "perhaps"}, NOTHING_ASKED),
        (
            {names.TOPOLOGY_REQUIRED: RACK, names.TOPOLOGY_PREFERRED: HOST},
            TopologyRequest(required=RACK),
        ),
        (
            {names.SLICE_REQUIRED: RACK, names.SLICE_SIZE: "4"},
            TopologyRequest(slices=(SliceLayer(topology=RACK, size=4),)),
        ),
        ({names.SLICE_REQUIRED: RACK, names.SLICE_SIZE: "none"}, NOTHING_ASKED),
        ({names.SLICE_REQUIRED: RACK}, NOTHING_ASKED),
        (
            {names.SLICE_CONSTRAINTS: LAYERS, names.SLICE_SIZE: "3"},
            TopologyRequest(
                slices=(SliceLayer(topology=RACK, size=4), SliceLayer(topology=HOST, size=2))
            ),
        ),
        ({names.SLICE_CONSTRAINTS: "[[["}, NOTHING_ASKED),
        ({names.PODSET_GROUP_NAME: "both"}, NOTHING_ASKED),
        (
            {names.TOPOLOGY_REQUIRED: RACK, names.PODSET_GROUP_NAME: "both"},
            TopologyRequest(required=RACK, group="both"),
        ),
    ],
)
def test_annotations_are_read_and_a_workload_says_the_same(
    annotations: dict[str, str], asked: TopologyRequest
) -> None:
    assert requested(annotations) == asked
    assert read_request(request(asked)) == asked


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_an_assignment_is_read_as_it_was_written(version: str) -> None:
    domains = tuple(TopologyDomain(values=("b", f"h-{n}"), count=1 + n % 2) for n in range(9))
    assignment = TopologyAssignment(levels=(RACK, HOST), domains=domains)
    assert read(written(assignment, version)) == assignment


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {},
        {"levels": [HOST]},
        {"levels": 3, "slices": []},
        {"levels": [HOST], "slices": [{"domainCount": 1}]},
        {"levels": [HOST], "domains": [{"values": ["h"]}]},
        {"levels": [HOST], "domains": [{"values": ["b", "h"], "count": 1}]},
        {"levels": [HOST], "domains": [{"values": ["h"], "count": -1}]},
        {"levels": [], "domains": [{"values": [], "count": 1}]},
        {
            "levels": [HOST],
            "slices": [
                {
                    "domainCount": MOST + 1,
                    "valuesPerLevel": [{"universal": "h"}],
                    "podCounts": {"universal": 1},
                }
            ],
        },
        {"levels": [HOST], "domains": [{"values": ["h"], "count": 1}] * (MOST + 1)},
    ],
)
def test_what_anybody_may_have_written_does_no_harm(found: Any) -> None:
    assert read(found) is None


@pytest.mark.parametrize("found", [None, [], {"required": 3}, {"podSetSliceSize": "x"}])
def test_nor_does_a_request(found: Any) -> None:
    assert read_request(found) == NOTHING_ASKED
