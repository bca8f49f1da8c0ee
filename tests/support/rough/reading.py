"""Workloads of the toy as the API server shows them, for the audit."""

from typing import Any


def as_object(w: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": w.name,
            "annotations": dict(w.annotations),
            "finalizers": list(w.finalizers),
            "ownerReferences": [{"uid": o.uid} for o in w.owners],
        },
        "spec": {
            "podSets": [
                {
                    "name": p.name,
                    "count": p.count,
                    "template": {
                        "spec": {
                            "containers": [
                                {"resources": {"requests": {"cpu": f"{p.requests['cpu']}m"}}}
                            ]
                        }
                    },
                }
                for p in w.pod_sets
            ]
        },
        "status": {
            "conditions": [
                {"type": x.type, "status": x.status, "reason": x.reason} for x in w.conditions
            ],
            "reclaimablePods": [{"name": n, "count": k} for n, k in w.reclaimable.items()],
            **(
                {
                    "admission": {
                        "podSetAssignments": [
                            {
                                "name": a.name,
                                "count": a.count,
                                "resourceUsage": {"cpu": f"{a.usage.get('cpu', 0)}m"},
                            }
                            for a in w.assignments
                        ]
                    }
                }
                if w.cluster_queue
                else {}
            ),
        },
    }
