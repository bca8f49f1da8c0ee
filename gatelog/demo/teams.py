"""Two teams and one cohort: who lends, borrows, takes back, and how what is left is shared.

Cohort `lab` has 4 CPUs of its own, teams red and blue bring 2 each, and shares decide. Every group
is two pods of 1 CPU. The stories follow each other: each begins where the one before ended.

Invariant: nothing here waits for a time to pass; what runs goes on until the story ends it.
"""

from typing import Any

from gatelog.demo.cluster import FLAVOR, QUEUE, Gang, Stage, expect
from gatelog.demo.stories import Programme, Story
from runtime.settings import QueueingSettings
from simcluster.client import Client

COHORT = "lab"
RED, BLUE = "team-red", "team-blue"
OWN_CPU, COMMON_CPU, SIZE = 2, 4, 2
_KUEUE = "kueue.x-k8s.io/v1beta2"


async def set_up_teams(client: Client) -> None:
    """Make what an administrator makes: a cohort with quota, and a queue per team below it."""
    await client.create(
        f"resourceflavors.{_KUEUE}",
        {"metadata": {"name": FLAVOR}, "spec": {"nodeLabels": {"pool": "a"}}},
    )
    cohort = {"metadata": {"name": COHORT}, "spec": {"resourceGroups": _quota(COMMON_CPU)}}
    await client.create(f"cohorts.{_KUEUE}", cohort)
    for team in (RED, BLUE):
        await client.create("namespaces", {"metadata": {"name": team}})
        queue: dict[str, Any] = {
            "cohortName": COHORT,
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any"},
            "resourceGroups": _quota(OWN_CPU),
        }
        await client.create(f"clusterqueues.{_KUEUE}", {"metadata": {"name": team}, "spec": queue})
        front = {"metadata": {"name": QUEUE}, "spec": {"clusterQueue": team}}
        await client.create(f"localqueues.{_KUEUE}", front, team)


def _quota(cpu: int) -> list[dict[str, Any]]:
    resources = [{"name": "cpu", "nominalQuota": str(cpu)}]
    return [
        {"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": resources}]},
    ]


async def submit(stage: Stage, team: str, name: str, tail: str = "") -> None:
    """Create the pods of a group; they run until the story ends them."""
    for number in range(SIZE):
        await stage.pod(f"{name}-{number}{tail}", Gang(name, SIZE, team), does="run=forever")


async def finish(stage: Stage, team: str, name: str, tail: str = "") -> None:
    """Let a group that runs come to its good end."""
    await stage.state(name, "Running", team=team)
    for number in range(SIZE):
        await stage.until_running(f"{name}-{number}{tail}", team)
        await stage.finish(f"{name}-{number}{tail}", team)
    row = await stage.state(name, "Finished", team=team)
    expect(row.reason == "Succeeded", f"{name} should have succeeded, not {row.reason}")


async def lend_and_borrow(stage: Stage) -> None:
    """Blue has nothing to do: red gets its own 2 CPUs, the common 4, and those of blue."""
    for number in range(1, 5):
        await submit(stage, RED, f"sweep-{number}")
        await stage.state(f"sweep-{number}", "Running", team=RED)
    await stage.reports("clusterqueues", RED, admitted=4, cpu="8", borrowed="6")


async def take_back(stage: Stage) -> None:
    """Blue wants its own 2 CPUs: the group of red that came last gives way at once."""
    await submit(stage, BLUE, "train-1")
    row = await stage.state("train-1", "Running", team=BLUE)
    expect(row.priority == 0, "blue should need no priority for that")
    await stage.state("sweep-4", "Evicted", team=RED)


async def share_alike(stage: Stage) -> None:
    """Blue wants more than its own: it gets that until both borrow as much, and no more."""
    await submit(stage, BLUE, "train-2")
    await stage.state("train-2", "Running", team=BLUE)
    await stage.state("sweep-3", "Evicted", team=RED)
    await submit(stage, BLUE, "train-3")
    await stage.state("train-3", "Queued", reason="WaitingForQuota", team=BLUE)
    for team in (RED, BLUE):
        await stage.reports("clusterqueues", team, admitted=2, cpu="4", borrowed="2", share=250)


async def come_back(stage: Stage) -> None:
    """Red puts new pods in place of those that gave way; they run when others are done."""
    for name in ("sweep-3", "sweep-4"):
        await submit(stage, RED, name, "-again")
        await stage.state(name, "Queued", team=RED)
    for team, name in ((RED, "sweep-1"), (BLUE, "train-1"), (RED, "sweep-2"), (BLUE, "train-2")):
        await finish(stage, team, name)
    await finish(stage, BLUE, "train-3")
    for name in ("sweep-3", "sweep-4"):
        await finish(stage, RED, name, "-again")
    await stage.reports("clusterqueues", RED, admitted=0, cpu="0", borrowed="0", share=0)


TEAMS = Programme(
    stories=(
        Story("red borrows what blue lends", (f"{RED}/sweep-1",), lend_and_borrow),
        Story(
            "blue takes back its own (reclaim)",
            (f"{BLUE}/train-1", f"{RED}/sweep-4"),
            take_back,
        ),
        Story(
            "both want more, and borrow alike (fair sharing)",
            (f"{BLUE}/train-2", f"{RED}/sweep-3", f"{BLUE}/train-3"),
            share_alike,
        ),
        Story("those that gave way come back", (f"{RED}/sweep-2",), come_back),
    ),
    set_up=set_up_teams,
    ask=(f"{RED}/sweep-4", f"{BLUE}/train-3"),
    queueing=QueueingSettings(
        fair_sharing=("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
        status_interval_s=1,
    ),
)
"""Two teams that share."""
