"""Actuators as child processes that are killed: every effect once, every outcome recorded."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from podgroup.model import names
from podgroup.model.commands import DeletePod, KubeEvent, ObjectRef
from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus
from tests.actuator.commands import create_workload, ungate
from tests.actuator.conftest import Lab
from tests.actuator.log import Outcomes, decide
from tests.support.faults.processes import frozen
from tests.support.forking import PYTHON, Forked

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

EVENT = KubeEvent(type="Normal", reason="Started", message="m")


class Children:
    """Starts actuators and ends them, by their own pid."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment = environment
        self._log = log
        self.running: list[Forked] = []

    def start(self, **settings: str) -> Forked:
        child = Forked([PYTHON, "-m", "actuator"], self._environment | settings, self._log)
        self.running.append(child)
        return child

    def kill(self, child: Forked) -> None:
        child.kill()
        child.wait()
        self.running.remove(child)

    def text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""


@pytest.fixture
def children(lab: Lab, nats: EmbeddedNats, tmp_path: Path) -> Iterator[Children]:
    login = nats.settings()
    environment = os.environ | {
        "GATELOG_NATS_URL": login.url,
        "GATELOG_NATS_USER": login.user,
        "GATELOG_NATS_PASSWORD_FILE": login.password_file,
        "GATELOG_KUBERNETES_KUBECONFIG": str(lab.cluster.kubeconfig(tmp_path / "child.kubeconfig")),
        "GATELOG_ACTUATOR_ACK_WAIT_S": "1",
        "GATELOG_ACTUATOR_EVENTS": "all",
        "GATELOG_LOG_FORMAT": "json",
    }
    found = Children(environment, tmp_path / "actuator.log")
    yield found
    for child in list(found.running):
        found.kill(child)


def gated(lab: Lab) -> int:
    pods = lab.cluster.objects("", "pods", "team")
    return sum(bool(pod["spec"].get("schedulingGates")) for pod in pods)


async def until(what: str, condition: object, timeout_s: float = 60.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


async def test_killed_between_write_and_acknowledgement(
    lab: Lab, nats: EmbeddedNats, bus: Bus, outcomes: Outcomes, children: Children
) -> None:
    """All writes are made while the log is halted; then the actuator dies; another one follows."""
    targets = [await lab.pod(f"p{n:02}") for n in range(20)]
    excess, owner = await lab.pod("excess"), await lab.pod("owner", schedulingGates=[])
    made = await decide(
        bus,
        *(ungate(target, events=(EVENT,)) for target in targets),
        DeletePod(target=excess),
        create_workload(owner),
    )
    # The reviews of access at the start are none of them: they come before a decision was taken.
    slow = lab.cluster.faults.delay(300, method="PATCH|POST|DELETE", path="/namespaces/team/")
    first = children.start()
    await until("no request came: " + children.text(), lambda: slow.hits)
    with frozen(nats.pid):
        await until(
            "not all written",
            lambda: not gated(lab) and lab.cluster.objects("kueue.x-k8s.io", "workloads", "team"),
        )
        await until("excess is there", lambda: len(lab.cluster.objects("", "pods", "team")) == 21)
        before = {p["metadata"]["name"]: p for p in lab.cluster.objects("", "pods", "team")}
        (workload,) = lab.cluster.objects("kueue.x-k8s.io", "workloads", "team")
        children.kill(first)
    lab.cluster.faults.clear()
    children.start()
    seen = await outcomes.until(len(made), 30, delivery=2)
    by_id = {o.decision: o for o in seen if o.delivery > 1}
    assert by_id.keys() == {d.id for d in made}
    for each in made[:20]:
        assert by_id[each.id].status == "applied"
    assert by_id[made[20].id].status == "obsolete"  # it was deleted by the first
    assert by_id[made[21].id].status == "applied"
    assert by_id[made[21].id].uid == workload["metadata"]["uid"]
    after = {p["metadata"]["name"]: p for p in lab.cluster.objects("", "pods", "team")}
    assert after == before
    assert lab.cluster.objects("kueue.x-k8s.io", "workloads", "team") == [workload]
    await until("Events", lambda: len(lab.events()) == 20, 60)


async def generation(lab: Lab, target: ObjectRef) -> int:
    live = await lab.live(target)
    assert live is not None
    return int(live["metadata"]["generation"])


async def test_killed_again_and_again_while_another_works(
    lab: Lab, bus: Bus, outcomes: Outcomes, children: Children
) -> None:
    targets = [await lab.pod(f"p{n:03}") for n in range(150)]
    lab.cluster.faults.delay(200, method="PATCH")
    before = {t.name: await generation(lab, t) for t in targets}
    made = await decide(bus, *map(ungate, targets))
    few = {"GATELOG_ACTUATOR_MAX_IN_FLIGHT": "4"}
    children.start(**few)
    victim = children.start(**few)
    for _ in range(2):
        left = gated(lab) - 20
        await until("no progress: " + children.text(), lambda left=left: gated(lab) < left)
        assert gated(lab)
        children.kill(victim)
        victim = children.start(**few)
    seen = await outcomes.until(len(made), 40)
    final = [o for o in seen if o.status != "retrying"]
    assert {o.decision for o in final} == {d.id for d in made}
    assert {o.status for o in final} == {"applied"}
    for target in targets:
        live = await lab.live(target)
        assert live is not None
        assert names.ADMISSION_GATE not in str(live["spec"])
        assert live["metadata"]["generation"] == before[target.name] + 1


async def test_told_to_stop_it_ends_by_itself_and_logs_json(
    lab: Lab, bus: Bus, outcomes: Outcomes, children: Children
) -> None:
    await decide(bus, ungate(await lab.pod()))
    child = children.start()
    await outcomes.until(1)
    child.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(child.wait, 10) == 0
    (line,) = [x for x in children.text().splitlines() if '"event": "outcome"' in x]
    for field in ("decision", "group", "rule", "target", "status", "http_status", "duration_ms"):
        assert f'"{field}"' in line


async def test_told_to_stop_while_the_log_is_away_it_ends_at_once(
    children: Children, nats: EmbeddedNats
) -> None:
    await nats.stop()
    child = children.start()
    await until("it never tried", lambda: "nats_unreachable" in children.text())
    child.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(child.wait, 5) == 0
