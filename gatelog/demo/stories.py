"""The stories: actions of users, and their required results.

Stories 1 and 2 are from KEP-976. All share one ClusterQueue with 10 CPUs and run one after the
other, so that each begins with an empty queue.

Invariant: a story returns only if everything it promises in its title was observed; it checks pods
at the API server and groups in the read model.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from gatelog.demo.cluster import QUOTA_CPU, Gang, Stage, expect
from podgroup.model.reasons import succeeded


class Story(Struct, frozen=True):
    """A title, the groups of `team-a` that it is about, and the play."""

    title: str
    groups: tuple[str, ...]
    play: Callable[[Stage], Awaitable[None]]


async def single_pod(stage: Stage) -> None:
    """KEP-976 story 1: a user labels a pod with a queue, and that is all."""
    await stage.pod("foo", image="hello-world", does="run=0.6s,succeed")
    await stage.state("foo", "Finished")
    await stage.until("released", stage.released, "foo")
    row = await stage.group("foo")
    expect(row is not None and succeeded(row.reason), "foo should have succeeded")


async def driver_and_workers(stage: Stage) -> None:
    """KEP-976 story 2: a driver and two workers of another shape, created one by one."""
    await stage.pod("job-driver", Gang("pod-group", 3), image="driver", does="run=1.2s,succeed")
    await stage.state("pod-group", "Composing", reason="WaitingForPods")
    await asyncio.sleep(0.4)
    expect(await stage.gated("job-driver"), "the driver should be gated while workers are missing")
    for number in (0, 1):
        await stage.pod(
            f"job-worker-{number}",
            Gang("pod-group", 3),
            cpu="2",
            image="worker",
            does="run=0.7s,succeed",
        )
    row = await stage.state("pod-group", "Finished")
    expect(row.pods_succeeded == 3, f"3 pods should have succeeded, not {row.pods_succeeded}")


async def waits_for_quota(stage: Stage) -> None:
    """Two groups want 16 of 10 CPUs: the second waits until all of the first is over."""
    for number in (0, 1):
        await stage.pod(f"training-{number}", Gang("training", 2), cpu="4", does="run=1.5s,succeed")
    await stage.state("training", "Running")
    for number in (0, 1):
        await stage.pod(f"tuning-{number}", Gang("tuning", 2), cpu="4")
    await stage.state("tuning", "Queued", reason="WaitingForQuota")
    expect(await stage.gated("tuning-0"), "pods of tuning should be gated while there is no quota")
    first = await stage.state("training", "Finished")
    second = await stage.state("tuning", "Finished")
    over = first.finished_at is not None and second.admitted_at is not None
    expect(
        over and second.admitted_at >= first.finished_at,  # type: ignore[operator] # both are set
        "tuning should be admitted after training was over, not before",
    )


async def failed_pod_replaced(stage: Stage) -> None:
    """A pod of a running group fails, and a replacement takes its place."""
    await stage.pod("fragile-0", Gang("fragile", 2), does="run=0.3s,fail=1")
    await stage.pod("fragile-1", Gang("fragile", 2), does="run=2s,succeed")
    await stage.state("fragile", "Running")
    await stage.until("counted as failed", lambda _: _failed(stage, "fragile"), "fragile-0")
    expect(not await stage.released("fragile-0"), "fragile-0 should be kept until it is replaced")
    await stage.pod("fragile-0-again", Gang("fragile", 2), does="run=0.5s,succeed")
    row = await stage.state("fragile", "Finished")
    expect(row.pods_replaced == 1, f"1 pod should be replaced, not {row.pods_replaced}")
    expect(succeeded(row.reason), f"fragile should have succeeded, not {row.reason}")


async def excess_pod_deleted(stage: Stage) -> None:
    """A third pod shows up in a group of two."""
    for number in (0, 1):
        await stage.pod(f"pair-{number}", Gang("pair", 2), does="run=1.2s,succeed")
    await stage.state("pair", "Running")
    await stage.pod("pair-extra", Gang("pair", 2))
    await stage.until("gone", stage.gone, "pair-extra")
    row = await stage.state("pair", "Finished")
    expect(row.pods_excess == 1, f"1 pod should be excess, not {row.pods_excess}")
    expect(row.pods_succeeded == 2, f"2 pods should have succeeded, not {row.pods_succeeded}")


async def preempted_and_back(stage: Stage) -> None:
    """An urgent pod needs the whole quota: a group of low priority stops, and comes back later."""
    for number in (0, 1):
        await stage.pod(
            f"night-{number}", Gang("night", 2), cpu="5", priority="whenever", does="run=forever"
        )
    await stage.state("night", "Running")
    await stage.pod("urgent", cpu=str(QUOTA_CPU), priority="urgent", does="run=1s,succeed")
    await stage.state("night", "Evicted", reason="WaitingForReplacementPods")
    await stage.until("running", stage.running, "urgent")
    for number in (0, 1):
        await stage.pod(f"night-{number}-again", Gang("night", 2), cpu="5", priority="whenever")
    row = await stage.state("night", "Finished")
    expect(row.pods_replaced == 2, f"2 pods should be replaced, not {row.pods_replaced}")
    await stage.state("urgent", "Finished")


async def start_reserved(stage: Stage) -> None:
    """A large group has waited too long: only what ends before its start passes it any more."""
    await stage.bounded("steady", 60, cpu="6", does="run=12s,succeed")
    await stage.until("running", stage.running, "steady")
    for number in (0, 1):
        await stage.pod(f"large-{number}", Gang("large", 2), cpu="4500m")
    await stage.state("large", "Queued", reason="WaitingForQuota")
    await stage.pod("early")
    await stage.state("early", "Finished")
    await stage.until("reserved a start", stage.reserved, "large-0")
    await stage.pod("late", cpu="2")
    await stage.bounded("brief", 5, cpu="2")
    await stage.state("brief", "Finished")
    expect(await stage.gated("late"), "late should be gated: when it ends is not known")
    large, late = await stage.state("large", "Finished"), await stage.state("late", "Finished")
    expect(
        large.admitted_at is not None
        and late.admitted_at is not None
        and large.admitted_at <= late.admitted_at,
        "large should be admitted before late",
    )


async def run_for_a_while(stage: Stage) -> None:
    """An urgent pod waits until the group that is to stop has run for its least time."""
    await stage.pod("young", cpu=str(QUOTA_CPU), priority="spared", does="run=forever")
    young = await stage.state("young", "Running")
    await stage.pod("hasty", cpu=str(QUOTA_CPU), priority="urgent", does="run=0.5s,succeed")
    await stage.state("hasty", "Queued", reason="WaitingForLeastRunTime")
    hasty = await stage.state("hasty", "Finished")
    expect(
        young.admitted_at is not None
        and hasty.admitted_at is not None
        and (hasty.admitted_at - young.admitted_at).total_seconds() >= 4,
        "hasty should be admitted when young has run for 4 s, not before",
    )


async def _failed(stage: Stage, name: str) -> bool:
    row = await stage.group(name)
    return row is not None and row.pods_failed > 0


STORIES = (
    Story("a single pod is queued (KEP-976 story 1)", ("foo",), single_pod),
    Story("a driver and its workers (KEP-976 story 2)", ("pod-group",), driver_and_workers),
    Story("a group waits for quota", ("training", "tuning"), waits_for_quota),
    Story("a failed pod is replaced", ("fragile",), failed_pod_replaced),
    Story("an excess pod is deleted", ("pair",), excess_pod_deleted),
    Story("a preemption, and the way back", ("night", "urgent"), preempted_and_back),
)
"""The stories in the order they are played."""
MORE = (
    Story(
        "a start is reserved for who waited too long", ("large", "brief", "late"), start_reserved
    ),
    Story("a preemption waits for a least run time", ("young", "hasty"), run_for_a_while),
)
"""What `--all` plays after them, with `LONGEST_WAIT_S`."""
LONGEST_WAIT_S = 3
