"""`gatelog stop`, `resume` and `create`: what is refused, and a dry run; tests/e2e has the rest."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from gatelog.cluster import install
from runtime.kube import KubeClient
from simcluster import SimCluster
from tests.cli.conftest import Ran

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
        (("create", "lq", "x/q", "-c", "nowhere"), 1, "create it first, or add -i"),
        (("create", "cq", "Big"), 2, "is no name of an object"),
        (("create", "cq", "c", "--nominal-quota", "cpu=9"), 2, "FLAVOR:cpu=9"),
        (("create", "cq", "c", "--nominal-quota", "f:cpu=x"), 2, "f cpu"),
        (("create", "cq", "c", "--lending-limit", "f:cpu=1"), 2, "no --nominal-quota"),
        (("create", "rf", "f", "--node-taints", "a=b"), 2, "KEY=VALUE:EFFECT"),
    ):
        found, _, err = await asyncio.to_thread(gatelog, *words, *at)
        assert found == code and said in err, (words, err)


async def test_a_dry_run_creates_nothing_and_prints_what_would_be(
    gatelog: Gatelog, bare_cluster: Bare, tmp_path: Path
) -> None:
    cluster, kube = bare_cluster
    await install.install_kinds(kube)
    at = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    words = (
        "--node-labels",
        "pool=a",
        "--tolerations",
        "gpu:NoSchedule",
        "--dry-run",
        "-o",
        "yaml",
    )
    code, said, err = await asyncio.to_thread(gatelog, "create", "rf", "spot", *words, *at)
    assert (code, err) == (0, "")
    assert "nodeLabels:\n    pool: a" in said and "effect: NoSchedule" in said
    assert cluster.objects("kueue.x-k8s.io", "resourceflavors") == []
