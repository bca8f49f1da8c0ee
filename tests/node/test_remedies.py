"""What is printed for an installation in a cluster is typed as it is printed, and it is well again.

Each fault is made on the installation that is there (chart or kustomize, one pod or production);
doctor is asked on a laptop or in the part, the lines that it prints are given to a shell, and
within a minute nothing fails and a new pod runs to its end. `gatelog up` is in tests/cli.
"""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.node.conftest import Story
from tests.node.operator import Operator
from tests.support import realcluster
from tests.support.faults.policies import ungating_refused
from tests.support.faults.processes import frozen
from tests.support.terminal import MOST_S, Place

pytestmark = [
    pytest.mark.slow("real containers, and faults that take their time to be seen"),
    pytest.mark.timeout(900),
]
DATABASE = "kubectl -n db exec -i deploy/postgres -- psql -h /data -U postgres gatelog -At"
"""A person's session with the PostgreSQL of this lab."""
READ_MODEL = "/var/lib/gatelog/state/read-model.sqlite3"
SMALL = 4 << 30
"""Bytes of the log's volume above which it is not filled up."""


@pytest.fixture
async def operator(story: Story, tmp_path: Path) -> AsyncIterator[Operator]:
    one = Operator(tmp_path, story)
    assert one.at.how, "no gatelog is installed on the cluster"
    await one.well(time.monotonic())
    try:
        yield one
    finally:
        await one.types(one.ways("rights")[0])  # what a test that failed left broken


async def again(one: Operator) -> None:
    """Type the line that makes again what was installed, and wait until it is well."""
    began = time.monotonic()
    await one.types(one.ways("rights")[0])
    await one.well(began)


@pytest.mark.parametrize("place", ["laptop", "part"])
async def test_rights_that_are_gone(operator: Operator, place: Place) -> None:
    operator.do("k delete clusterrolebinding gatelog-actuator")
    await operator.until_printed("rights", place=place)
    await again(operator)


async def test_admission_that_is_gone(operator: Operator) -> None:
    await realcluster.forget_admission(operator.story.api)
    await operator.until_printed("objects", place="laptop")
    await again(operator)


@pytest.mark.parametrize("part", ["ingest", "projector", "actuator"])
async def test_a_part_that_was_deleted(operator: Operator, part: str) -> None:
    if operator.standalone:
        operator.do("k delete statefulset gatelog")
    else:
        operator.do(f"k delete deployment gatelog-{part}")
        if part != "projector":
            await operator.until_printed("part away", part)
    cause = "part away" if operator.standalone else "objects"
    await operator.until_printed(cause, "ingest", place="laptop")
    await again(operator)


@pytest.mark.parametrize("part", ["ingest", "projector", "actuator"])
async def test_a_part_that_was_scaled_to_none(operator: Operator, part: str) -> None:
    kind = "statefulset gatelog" if operator.standalone else f"deployment gatelog-{part}"
    operator.do(f"k scale {kind} --replicas=0")
    await operator.until_printed(
        "part away", "standalone" if operator.standalone else part, place="laptop"
    )
    await again(operator)


async def test_the_logs_server_does_not_answer(operator: Operator) -> None:
    words = ["pgrep", "-f", "nats-server.*-c|nats-server.*jetstream|^nats-server"]
    found = subprocess.run(words, check=False, capture_output=True, text=True).stdout.split()
    pids = [pid for pid in found if b"kubepods" in Path(f"/proc/{pid}/cgroup").read_bytes()]
    assert pids, "the nodes are not this machine"
    with frozen(*map(int, pids)):
        await operator.until_printed("nats away")
        (line,) = [way for way in operator.ways("nats away") if "delete pod" in way]
        began = time.monotonic()
        await operator.types(line)
        await operator.well(began)


async def test_the_logs_server_is_gone(operator: Operator) -> None:
    if operator.standalone:
        return await again(operator)  # its server is a process of the one pod
    operator.do("k delete statefulset nats")
    await operator.until_printed("nats away")
    await again(operator)


async def test_the_disk_of_the_log_is_full(operator: Operator) -> None:
    pod, place = ("gatelog-0", "/var/lib/gatelog") if operator.standalone else ("nats-0", "/data")
    tools = "" if operator.standalone else "busybox "  # of the image of nats-server
    size = operator.do(f"k exec {pod} -- {tools}df -k {place}").splitlines()[-1].split()[1]
    assert int(size) << 10 < SMALL, "the volume is too large to be filled"
    operator.do(f"k exec {pod} -- {tools}sh -c '{tools}cat /dev/zero >{place}/filler || true'")
    try:
        # In the one pod the read model is on the same disk.
        name = "" if operator.standalone else await operator.pod()
        await operator.until_printed("database" if operator.standalone else "nats full")
    finally:
        operator.do(f"k exec {pod} -- {tools}rm {place}/filler")
    began = time.monotonic()
    await operator.types(*[way for way in operator.ways("nats full") if "delete pod" in way])
    await operator.well(began)
    if name:
        await operator.story.until("Succeeded", name)


async def test_the_log_has_no_streams(operator: Operator) -> None:
    if operator.standalone:
        # Its streams are gone when the server starts anew, which it does by itself.
        code = (
            "import glob,os,shutil; "
            "[shutil.rmtree(x) for x in glob.glob('/var/lib/gatelog/**/EVENTS', recursive=True)]; "
            "[os.kill(int(x.split('/')[2]), 9) for x in glob.glob('/proc/[0-9]*/cmdline') "
            "if b'nats-server' in open(x,'rb').read()[:90]]"
        )
        operator.do(f'k exec gatelog-0 -- python -c "{code}"')
    else:
        operator.do(
            "k exec nats-0 -- busybox sh -c 'busybox rm -rf /data/jetstream/*/streams/EVENTS'"
        )
        operator.do("k delete pod nats-0")
    await operator.until_printed("streams")
    began = time.monotonic()
    await operator.types(*operator.ways("streams"))
    await operator.well(began)


async def test_the_read_model_has_no_schema(operator: Operator) -> None:
    if operator.standalone:
        operator.do(f"k exec gatelog-0 -- sh -c 'rm {READ_MODEL}*'")
    else:
        sql = "DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION gatelog"
        operator.do(f"{DATABASE} -c '{sql}'")
    await operator.until_printed("schema")
    began = time.monotonic()
    await operator.types(*operator.ways("schema"))
    await operator.well(began)


async def test_nothing_is_decided_since_a_key_is_another(operator: Operator) -> None:
    if operator.standalone:
        began = time.monotonic()
        await operator.types(*operator.ways("keys"))
        await operator.well(began)
        return
    words = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(operator.home / "key.pem")]
    subprocess.run(words, check=True)
    other = f"openssl pkey -in {operator.home}/key.pem -pubout | base64 -w0"
    patch = """{"data":{"decision-keys.pem":"'$(%s)'"}}""" % other  # noqa: UP031
    operator.do(f"k patch secret gatelog-nats --type=merge -p '{patch}'")
    operator.do("k rollout restart deployment gatelog-actuator")
    operator.do("k rollout status deployment gatelog-actuator --timeout=20s || true")
    await operator.pod()
    await operator.until_printed("keys", "actuator")
    began = time.monotonic()
    await operator.types(*operator.ways("keys"))
    # A decision that was refused meanwhile is sent again after projector.decision_timeout_s.
    await operator.well(began, 2 * MOST_S)


async def test_the_read_model_is_locked(operator: Operator) -> None:
    if operator.standalone:
        code = (
            f"import sqlite3,time; c=sqlite3.connect('{READ_MODEL}',timeout=30,"
            "isolation_level=None); c.execute('BEGIN IMMEDIATE'); time.sleep(60)"
        )
        line = f'k exec gatelog-0 -- python -c "{code}" & sleep 3'
    else:
        sql = "BEGIN; LOCK TABLE checkpoints IN SHARE MODE; SELECT pg_sleep(300)"
        line = f"{DATABASE} -c '{sql}' >/dev/null 2>&1 & sleep 1"
    await asyncio.to_thread(operator.do, f"({line}) >/dev/null 2>&1")
    await operator.pod()
    await operator.until_printed("database")
    began = time.monotonic()
    if not operator.standalone:
        sql = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%'"
        pid = operator.do(DATABASE, f"{sql};").strip()
        operator.do(DATABASE, f"SELECT pg_terminate_backend({pid});")
    await operator.well(began)


async def test_the_database_is_away(operator: Operator) -> None:
    if operator.standalone:
        return
    operator.do("kubectl -n db scale deployment postgres --replicas=0")
    await asyncio.sleep(5)
    await operator.until_printed("database")
    operator.do("kubectl -n db scale deployment postgres --replicas=1")
    operator.do("kubectl -n db rollout status deployment postgres --timeout=60s")
    await operator.well(time.monotonic())


async def test_a_policy_refuses_that_gates_go(operator: Operator) -> None:
    async with ungating_refused(operator.api):
        names = [await operator.pod() for _ in range(8)]
        await operator.until_printed("refused")
        found = await asyncio.to_thread(operator.doctor, "part")
        assert any("'another'" in one["detail"] for one in found), "who refuses is named"
    began = time.monotonic()
    await operator.story.until("Succeeded", *names, timeout_s=2 * MOST_S)
    # The write is tried again within a minute of the policy's end, and then the pods run.
    await operator.well(began, 1.5 * MOST_S)


async def test_a_group_whose_pods_were_deleted(operator: Operator) -> None:
    story = operator.story
    for name in ("a", "b"):
        await story.pod(name, "sleep 600", group="train", total=2)
    await story.until("Running", "a", "b")
    for name in ("a", "b"):
        await story.api.call("DELETE", f"{story.path}/{name}")
    began = time.monotonic()
    await operator.types(*operator.ways("deleted group"), NAMESPACE=story.namespace, GROUP="train")
    await story.until_gone("a", "b")
    await operator.well(began)


async def test_a_queue_that_was_stopped(operator: Operator) -> None:
    queue = operator.story.namespace
    await asyncio.to_thread(operator.do, f"gatelog stop clusterqueue {queue}")
    name = await operator.pod()
    await asyncio.sleep(3)
    assert (await operator.story.phases())[name] == "Pending"
    began = time.monotonic()
    await operator.types(operator.ways("queue stopped")[0], QUEUE=queue)
    await operator.story.until("Succeeded", name)
    await operator.well(began)
