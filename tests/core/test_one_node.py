"""Two flavors of one pod that contradict each other in node labels: no fit, and both are named."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from podgroup.log import events as e
from podgroup.model.commands import UngatePod
from podgroup.model.policy import Policy
from tests.core.test_amounts import reason, view
from tests.support.toy import Toy

CASE = Path(__file__).parent / "cases" / "flavors-same-label.yaml"


def cluster(toy: Toy, **zone: str) -> None:
    """The objects of the case, with other zones if they are given."""
    for manifest in yaml.safe_load_all(CASE.read_text()):
        name, kind = manifest["metadata"]["name"], manifest["kind"]
        found = view(kind, manifest["spec"])
        if kind == "ClusterQueue":
            name = "cq"
            found = msgspec.structs.replace(found, uid=toy.world.cluster_queues[name].uid)
        elif name in zone:
            found = msgspec.structs.replace(found, node_labels={"zone": zone[name]})
        version = toy.bump()
        made = msgspec.structs.replace(found, name=name, resource_version=version)
        toy.do(e.ObjectApplied(object=made))


def pod(toy: Toy, name: str) -> None:
    toy.pod(name, name, 1, requests={"cpu": 1000, "example.com/gpu": 1})


def test_the_case_of_two_flavors_with_one_label_waits_and_names_both() -> None:
    toy = Toy(2)
    cluster(toy)
    pod(toy, "both")
    word, message = reason(toy, "both")
    assert toy.gated("both")
    assert word == "NoMatchingFlavor"
    assert message.startswith(
        "can never start: flavor cpu-zone-a wants nodes with zone=a, flavor gpu-zone-b of the same "
        "pods zone=b; administrators of ResourceFlavors may"
    )
    cluster(toy, **{"gpu-zone-b": "a"})
    assert not toy.gated("both"), "the flavors were put right"


def test_as_kueue_does_the_last_flavor_wins() -> None:
    toy = Toy(2, policy=Policy(compatibility="kueue"))
    cluster(toy)
    pod(toy, "both")
    assert not toy.gated("both")


@pytest.mark.parametrize("gated", [True, False])
def test_labels_that_change_after_the_admission_start_no_pod_on_half_of_it(gated: bool) -> None:
    toy = Toy(2)
    cluster(toy, **{"gpu-zone-b": "a"})
    if gated:
        toy.act = False
    pod(toy, "both")
    toy.held_back = toy.queue
    if gated:
        toy.queue.clear()
    cluster(toy)
    toy.wait(60)
    toy.act = True
    toy.settle()
    started: list[Any] = [d for d in toy.decisions if isinstance(d.command, UngatePod)]
    for one in started:
        assert one.command.node_selector == {"zone": "a"}
