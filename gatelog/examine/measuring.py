"""Looking at the metrics API, which says what pods really use.

Invariant: without it nothing of gatelog fails; where it is asked for and missing that is a warning.
"""

from gatelog.examine.findings import Finding, ok, warn
from ingest.measuring import API
from runtime.kube import KubeClient
from runtime.settings import Settings

WHAT = "measured"


async def examine(kube: KubeClient, settings: Settings) -> Finding:
    """Say whether there is a metrics API, and whether ingest asks it."""
    every_s = settings.ingest.measure_interval_s
    answer = await kube.request("GET", API)
    match answer.status:
        case 200:
            there = "the cluster has a metrics API"
        case 404:
            there = "the cluster has no metrics API (metrics.k8s.io)"
        case status:
            there = f"the metrics API (metrics.k8s.io) answers with status {status}"
    if not every_s:
        off = "what pods really use is not looked at (ingest.measure_interval_s = 0)"
        return ok("cluster", WHAT, f"{off}; {there}")
    if answer.status == 200:
        return ok("cluster", WHAT, f"what pods really use, every {every_s:g} s; {there}")
    return warn(
        "cluster",
        WHAT,
        f"{there}: what pods really use is not known",
        "install metrics-server, or look why it does not answer (kubectl get apiservice "
        "v1beta1.metrics.k8s.io), or set ingest.measure_interval_s = 0",
    )
