"""A Workload as the API server shows it: what gatelog writes, written and read as its parts do.

Views in tests say what was meant; between what a decision means and what the next event says are
the actuator's JSON and ingest's reading of it, which cut texts, round times and spell amounts anew.

Invariant: only the status is read back; metadata and spec stay the view's.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from actuator.patches import seconds, toleration
from actuator.workload_status import admission, requeue_state
from ingest.translate.workloads import WorkloadWire, workload_view
from podgroup.model.commands import Admission
from podgroup.model.objects import CheckView, WorkloadView

VERSION = "v1beta2"
_decoder = msgspec.json.Decoder(WorkloadWire)


def read_back(view: WorkloadView) -> WorkloadView:
    """Return the view that ingest makes of a Workload with this status."""
    body = {
        "metadata": {
            "uid": view.uid,
            "namespace": view.namespace,
            "name": view.name,
            "resourceVersion": view.resource_version,
            "creationTimestamp": seconds(view.created_at),
        },
        "spec": {},
        "status": status_of(view),
    }
    found = workload_view(_decoder.decode(msgspec.json.encode(body)))
    return replace(
        view,
        conditions=found.conditions,
        cluster_queue=found.cluster_queue,
        assignments=found.assignments,
        checks=found.checks,
        reclaimable=found.reclaimable,
        executed_s=found.executed_s,
        requeue=found.requeue,
    )


def status_of(view: WorkloadView) -> dict[str, Any]:
    """Return the status as JSON, by the functions of the actuator where it writes that part."""
    found: dict[str, Any] = {
        "conditions": [
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                **({"lastTransitionTime": seconds(one.at)} if one.at is not None else {}),
            }
            for one in view.conditions
        ],
        "admissionChecks": [_check(one) for one in view.checks],
        "reclaimablePods": [{"name": n, "count": count} for n, count in view.reclaimable.items()],
        "requeueState": requeue_state(view.requeue, None),
        "accumulatedPastExecutionTimeSeconds": view.executed_s,
    }
    if view.cluster_queue:
        given = Admission(cluster_queue=view.cluster_queue, assignments=view.assignments)
        found["admission"] = admission(given, VERSION)
        for one, written in zip(
            view.assignments, found["admission"]["podSetAssignments"], strict=True
        ):
            if one.topology and one.place is None:
                written["delayedTopologyRequest"] = "Pending"
    return found


def _check(view: CheckView) -> dict[str, Any]:
    return {
        "name": view.name,
        "state": view.state,
        "message": view.message,
        "podSetUpdates": [
            {
                "name": one.name,
                "labels": one.labels,
                "annotations": one.annotations,
                "nodeSelector": one.node_selector,
                "tolerations": [toleration(t) for t in one.tolerations],
            }
            for one in view.updates
        ],
        "requeueAfterSeconds": view.requeue_after_s,
    }
