"""`gatelog doctor` on Leases: who holds them, and when nobody does."""

import msgspec

from gatelog.examine import leases
from runtime.kube import connect
from runtime.lease import LeaseStore, lease_name
from runtime.settings import KubernetesSettings, LeaseSettings, Settings
from tests.support.standin import SimCluster


async def test_holders_are_named_and_missing_ones_are_failures(tmp_path):
    settings = Settings(mode="kueue", lease=LeaseSettings(enabled=True, namespace="default"))
    async with SimCluster() as sim:
        config = KubernetesSettings(kubeconfig=str(sim.kubeconfig(tmp_path / "kubeconfig")))
        kube = await connect(config)
        try:
            for name in (lease_name("ingest", "default"), lease_name("projector", "default")):
                store = LeaseStore(kube, "default", name)
                assert await store.write(None, holder="host-1", duration_s=10, timeout_s=5)
            # The second was given back.
            assert await store.write(await store.read(5), holder="", duration_s=1, timeout_s=5)
            found = {each.what: each for each in await leases.examine(kube, settings)}
        finally:
            await kube.close()
    assert {what: each.verdict for what, each in found.items()} == {
        "ingest": "ok",
        "projector": "fail",
    }
    assert "host-1" in found["ingest"].detail
    assert "no replica holds default/gatelog-projector-default-0" in found["projector"].detail
    off = msgspec.structs.replace(settings, lease=LeaseSettings())
    (said,) = await leases.examine(None, off)  # type: ignore[arg-type] # is not asked
    assert said.verdict == "ok"
