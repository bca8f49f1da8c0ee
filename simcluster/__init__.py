"""A stand-in Kubernetes 1.36 cluster: API server, scheduler, garbage collector, kubelet.

Theory: a controller only ever sees a cluster through HTTP, so a server that answers as the
recorded one did, with its state in memory and its controllers in the same event loop, is enough to
run whole scenarios, faults and load in seconds. kmock (PyPI) was looked at first: it scripts
answers and keeps objects, but has no field management, validation, admission calls, paging
snapshots, watch history or controllers.

Invariant: this package imports none of gatelog's packages; they share only the HTTP contract.
"""

from simcluster.cluster import SimCluster
from simcluster.settings import NodeSettings, Settings, WatchListMode

__all__ = ["NodeSettings", "Settings", "SimCluster", "WatchListMode"]
