"""Expected starts on Workloads: written once for each thing told, on the right object only."""

from pathlib import Path

import msgspec
import pytest

from gatelog import cli
from gatelog.forecast.telling import EXPECTED_START, WorkloadAnnotator, news
from podgroup.model.ids import GroupID
from runtime.kube import connect
from runtime.settings import KubernetesSettings
from tests.forecast.test_forecast import BRIEF_S, forecast_of, one_at_a_time
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.standin import SimCluster

WORKLOADS = ("kueue.x-k8s.io", "workloads")


async def test_a_workload_is_written_for_what_is_new_and_near(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    toy, writer = one_at_a_time(waiting=4), Writer(url)
    toy.pod("large", cpu=11)
    made = forecast_of(url, toy, writer, budget_s=BRIEF_S)
    assert len(made.fresh) == 5
    async with SimCluster() as cluster:
        await cluster.create("", "namespaces", {"metadata": {"name": "ns"}})
        for group in made.fresh:
            mirror = made.world.groups[GroupID(group)].mirror
            assert mirror.workload is not None
            spec = {"podSets": [], "queueName": "lq"}
            meta = {"name": mirror.workload.name, "namespace": "ns"}
            there = await cluster.create(*WORKLOADS, {"metadata": meta, "spec": spec}, "ns")
            uid = there["metadata"]["uid"]
            if made.world.groups[GroupID(group)].name == "wait-3":
                uid = "of one that was there before"
            mirror.workload = msgspec.structs.replace(mirror.workload, uid=uid)
        wanted = {one.path.rsplit("/", 1)[1]: one.text for one in news(made).values()}

        def annotated() -> dict[str, str]:
            return {
                one["metadata"]["name"]: one["metadata"]["annotations"][EXPECTED_START]
                for one in cluster.objects(*WORKLOADS)
                if EXPECTED_START in one["metadata"].get("annotations", {})
            }

        config = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
        kube = await connect(KubernetesSettings(kubeconfig=config))
        try:
            teller = WorkloadAnnotator(kube, at_once=2)
            assert await teller.write(made) == (2, 0)
            first = annotated()
            assert sorted(first.values()) == sorted(wanted.values())[:2], "the nearest come first"
            made.fresh = []
            assert await teller.write(made) == (1, 1), "the rest in its turn; one is another's"
            assert await teller.write(made) == (1, 0)
            found = annotated()
            assert {name: wanted[name] for name in found} == found and len(found) == 4
            assert [text for text in found.values() if text.startswith("never: ")]
            before = cluster.objects(*WORKLOADS)
            assert await teller.write(made) == (0, 0)
            assert cluster.objects(*WORKLOADS) == before
        finally:
            await kube.close()


def test_what_is_told_has_to_be_kept_true(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["forecast", "--tell"]) == 2
    assert "--tell goes with --every" in capsys.readouterr().err
