"""The stand-in cluster with what only tests want: CEL, faults, and other servers behind it.

`simcluster` calls webhooks whatever their match conditions say, and stores policies; this evaluates
both. With `front_proxy` it speaks TLS and passes requests on to services of APIServices.
"""

from simcluster import cluster
from simcluster.settings import Settings
from tests.support.standin.aggregation import Aggregation
from tests.support.standin.backdoor import Backdoor
from tests.support.standin.faults import Faults
from tests.support.standin.faultyserver import FaultyServer
from tests.support.standin.frontproxy import FrontProxy
from tests.support.standin.policychain import PolicyChain


class SimCluster(cluster.SimCluster):
    """``async with SimCluster(Settings(...)) as cluster: ...``."""

    chain = PolicyChain
    serving = FaultyServer
    server: FaultyServer

    def __init__(self, settings: Settings | None = None, *, front_proxy: bool = False) -> None:
        self._proxy = FrontProxy() if front_proxy else None
        super().__init__(settings)
        server = self.server
        services = self.webhook_services
        server.backdoor = Backdoor(
            self.store, server.faults, services, server.stats, server.streams
        )

    @property
    def faults(self) -> Faults:
        return self.server.faults

    @property
    def proxy(self) -> FrontProxy:
        """Of a cluster that has one."""
        assert self._proxy is not None
        return self._proxy

    def in_front(self) -> Aggregation | None:
        if self._proxy is None:
            return None
        return Aggregation(self.store, self.webhook_services, self._proxy)
