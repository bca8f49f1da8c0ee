"""`gatelog stop` and `resume`: what is refused; tests/e2e has the rest."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from gatelog.cluster import install
from runtime.kube import KubeClient
from tests.cli.conftest import Ran
from tests.support.standin import SimCluster

Gatelog = Callable[..., Ran]
Bare = tuple[SimCluster, KubeClient]


async def test_what_cannot_be_is_refused_with_what_to_do(
    gatelog: Gatelog, bare_cluster: Bare, tmp_path: Path
) -> None:
    await install.install_kinds(bare_cluster[1])
    at = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    for words, code, said in (
        (("stop", "cq", "nowhere"), 1, "there is no clusterqueue nowhere"),
        (("stop", "lq", "user-queue"), 2, "name the localqueue as NAMESPACE/NAME, or with -n"),
        (("stop", "group", "x/nobody"), 1, "nor a pod of that name"),
        (("stop", "group", "x/a", "--keep-already-running"), 2, "is for queues"),
        (("resume", "pod", "a"), 2, "name a clusterqueue"),
    ):
        found, _, err = await asyncio.to_thread(gatelog, *words, *at)
        assert found == code and said in err, (words, err)
