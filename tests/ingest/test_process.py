"""`python -m ingest` as an operator runs it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.settings import NatsSettings
from tests.ingest.test_endtoend import create
from tests.ingest.world import Log, caught_up
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


def environment(nats: NatsSettings, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "GATELOG_NATS_URL": nats.url,
        "GATELOG_NATS_USER": nats.user,
        "GATELOG_NATS_PASSWORD_FILE": nats.password_file,
        **more,
    }


async def test_it_follows_the_cluster_and_ends_well_on_sigterm(
    nats_settings, bus, cluster, tmp_path
):
    async with SimCluster() as sim:
        await create(sim, "a", "b")
        env = environment(
            nats_settings,
            GATELOG_CLUSTER=cluster,
            GATELOG_KUBERNETES_KUBECONFIG=str(sim.kubeconfig(tmp_path / "kubeconfig")),
        )
        output = tmp_path / "output"
        with output.open("wb") as out:
            child = subprocess.Popen([sys.executable, "-m", "ingest"], env=env, stderr=out)
        try:
            log = Log(bus, cluster)
            await caught_up(log, sim)
            await log.close()
            child.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(child.wait, 20)
        finally:
            child.kill()
            child.wait()
        assert code == 0, output.read_text()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("GATELOG_KUBERNETES_KUBECONFIG", "/nowhere/config", "/nowhere/config"),
        ("GATELOG_STREAMS_REPLICAS", "many", "streams.replicas"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    name: str, value: str, said: str, nats_settings: NatsSettings, tmp_path: Path
):
    done = subprocess.run(
        [sys.executable, "-m", "ingest"],
        env=environment(nats_settings, **{name: value}),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert said.encode() in done.stderr
    assert b"Traceback" not in done.stderr
