"""Translation of ResourceClaims, their templates and DeviceClasses: which devices, how many."""

import json
from typing import Any

import pytest

from ingest.kinds import watched_kinds
from ingest.translate.items import Delta
from podgroup.log.events import ObjectApplied
from podgroup.model.objects import (
    DEVICE_KINDS,
    WATCHED_KINDS,
    DeviceClassView,
    Kind,
    PodClaim,
    ResourceClaimTemplateView,
    ResourceClaimView,
    kinds_watched,
)
from runtime.settings import QueueingSettings
from tests.ingest.recorded import as_line, first_pod
from tests.ingest.test_translate import applied, pod_of

ROWS = {row.kind: row for row in watched_kinds("", kinds=DEVICE_KINDS)}
META = {
    "uid": "u",
    "namespace": "ns",
    "name": "x",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
Json = dict[str, Any]


def view(kind: Kind, **fields: Any) -> Any:
    found = ROWS[kind].translator.item(
        as_line({"type": "ADDED", "object": {"metadata": META, **fields}})
    )
    assert isinstance(found, Delta) and isinstance(found.event, ObjectApplied), found
    return found.event.object


def template(*requests: Json) -> ResourceClaimTemplateView:
    found = view("ResourceClaimTemplate", spec={"spec": {"devices": {"requests": list(requests)}}})
    assert isinstance(found, ResourceClaimTemplateView)
    return found


def claim(*requests: Json, allocated: tuple[Json, ...] = (), **meta: Any) -> ResourceClaimView:
    status = {"allocation": {"devices": {"results": list(allocated)}}} if allocated else {}
    spec = {"devices": {"requests": list(requests)}}
    found = view("ResourceClaim", spec=spec, status=status, metadata={**META, **meta})
    assert isinstance(found, ResourceClaimView)
    return found


def exactly(name: str, device_class: str = "gpu.example.com", **more: Any) -> Json:
    fields = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    return {"name": name, "exactly": {**fields, **more}}


def test_the_three_kinds_are_watched_where_a_class_is_mapped_and_gatelog_decides():
    mapped = QueueingSettings(device_classes=("gpu.example.com=gpus",))
    kinds = kinds_watched("builtin", mapped)
    assert kinds == (*DEVICE_KINDS, *WATCHED_KINDS)
    assert tuple(row.kind for row in watched_kinds("a=b", kinds=kinds)) == kinds
    assert kinds_watched("kueue", mapped) == WATCHED_KINDS
    assert kinds_watched("builtin", QueueingSettings()) == WATCHED_KINDS


def test_counts_of_a_class_add_up_and_saturate():
    found = template(exactly("a", count=2), exactly("b", count=3), exactly("c", "nic.example.com"))
    assert found.devices == {"gpu.example.com": 5, "nic.example.com": 1} and not found.problem
    most = 2**63 - 1
    assert template(exactly("a", count=most), exactly("b", count=most)).devices == {
        "gpu.example.com": most
    }


def test_what_the_api_server_would_fill_in_is_one_device():
    bare = {"name": "a", "exactly": {"deviceClassName": "gpu.example.com"}}
    assert template(bare).devices == {"gpu.example.com": 1}


def test_admin_access_takes_nothing():
    found = template(exactly("a", adminAccess=True), exactly("b", adminAccess=False))
    assert found.devices == {"gpu.example.com": 1} and not found.problem
    everything = exactly("a", allocationMode="All", adminAccess=True)
    assert template(everything).devices == {} and not template(everything).problem


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            exactly("b", allocationMode="All", count=None),
            "[1].exactly.allocationMode: All gives no number of devices",
        ),
        (
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "c"}]},
            "[1].firstAvailable: alternatives are not counted",
        ),
        (exactly("b", count=-4), "[1].exactly.count: is -4, it must be at least 1"),
        ({"name": "b"}, "[1]: neither exactly nor firstAvailable, as no request may be"),
    ],
)
def test_what_gives_no_number_is_said_with_its_path(request_: Json, said: str):
    found = template(exactly("a"), request_)
    assert found.problem == f"spec.spec.devices.requests{said}"
    assert found.devices == {"gpu.example.com": 1}
    assert claim(exactly("a"), request_).problem == f"spec.devices.requests{said}"


def test_of_what_gives_no_number_counts_what_is_allocated():
    everything = exactly("all", allocationMode="All")
    either = {
        "name": "either",
        "firstAvailable": [
            {"name": "large", "deviceClassName": "large.example.com"},
            {"name": "small", "deviceClassName": "small.example.com"},
        ],
    }
    results = [{"request": name} for name in ("all", "all", "all", "either/small", "unknown")]
    found = claim(everything, either, allocated=(*results, {"request": "all", "adminAccess": True}))
    assert found.devices == {"gpu.example.com": 3, "small.example.com": 1}
    assert "allocationMode" in found.problem


def test_a_claim_says_which_pod_it_was_made_for():
    owner = {"kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}
    assert claim(exactly("a"), ownerReferences=[owner]).pod == "pod-uid"
    assert claim(exactly("a"), ownerReferences=[{**owner, "controller": False}]).pod == ""
    assert claim(exactly("a")).pod == ""


def test_nothing_of_a_driver_or_a_selector_enters_the_log():
    secret = exactly("a", selectors=[{"cel": {"expression": "hidden"}}])
    spec = {"devices": {"requests": [secret], "config": [{"opaque": {"parameters": "hidden"}}]}}
    assert "hidden" not in json.dumps(str(view("ResourceClaim", spec=spec)))


def test_a_class_says_by_which_resource_containers_may_ask_for_it():
    found = view("DeviceClass", spec={"extendedResourceName": "example.com/gpu"})
    assert isinstance(found, DeviceClassView) and found.extended_resource == "example.com/gpu"
    assert view("DeviceClass", spec={}).extended_resource == ""


def test_a_pod_says_which_claims_it_names_and_which_were_made_for_it():
    pod = first_pod()
    pod["spec"]["resourceClaims"] = [
        {"name": "own", "resourceClaimTemplateName": "template"},
        {"name": "shared", "resourceClaimName": "claim"},
    ]
    pod["status"]["resourceClaimStatuses"] = [
        {"name": "own", "resourceClaimName": "pod-own-abc"},
        {"name": "shared", "resourceClaimName": "claim"},
        {"name": "other", "resourceClaimName": "no-entry"},
    ]
    found = pod_of(applied(pod))
    assert found.resource_claims == (
        PodClaim(name="own", template="template"),
        PodClaim(name="shared", claim="claim"),
    )
    assert found.generated_claims == (("own", "pod-own-abc"),)
