"""Looking for pods that bear gatelog's gate or finalizer without its label, which no watch shows.

Invariant: reads only, and no more than the first pods of a large cluster.
"""

from gatelog.examine.findings import Finding, fail, ok, skip, some
from runtime.access import Right, allowed
from runtime.kube import KubeClient
from runtime.settings import Settings
from runtime.unlabelled import NotListed, find

AREA, WHAT = "cluster", "unlabelled pods"
MOST = 10_000
"""Pods that are looked at in each of two lists; ingest looks at all of them."""
SHOWN = 3


async def examine(kube: KubeClient, settings: Settings) -> Finding:
    """Name pods that wait unseen, what they lack and what to do."""
    if not await allowed(kube, Right("", "pods", "list")):
        return skip(AREA, WHAT, "this account may not list pods of all namespaces")
    try:
        found = await find(kube, topology=settings.mode == "builtin", most=MOST)
    except NotListed as error:
        return skip(AREA, WHAT, str(error))
    if not found:
        return ok(AREA, WHAT, "none bears gatelog's gate or finalizer without its label")
    said = [f"pod {one.namespace}/{one.name}: {one.says}" for one in found]
    remedy = "what each says; who creates pods while admission is away, or takes the label off?"
    return fail(AREA, WHAT, some(said, SHOWN), remedy)
