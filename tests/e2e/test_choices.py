"""What an operator chooses in section `queueing` reaches Workloads, through all deployments."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.processes import KUEUE, Api, make_queue, pod
from tests.support.stack import Stack, finished, started

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

TEAM, OTHER, NETWORK = "example.com/team", "example.com/other", "networking.example.com/vpc"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    one = Stack(tmp_path_factory.mktemp("choices"))
    one.up.env["GATELOG_QUEUEING_ANNOTATION_KEYS_TO_COPY"] = TEAM
    one.up.env["GATELOG_QUEUEING_WORKLOADS"] = "groups"
    one.up.env["GATELOG_QUEUEING_EXCLUDE_RESOURCE_PREFIXES"] = "networking.example.com/"
    with started(one):
        yield one


def of_team(name: str, team: str) -> dict[str, Any]:
    body = pod(name, "train", 2, script="run=200ms,succeed")
    body["metadata"]["annotations"] |= {TEAM: team, OTHER: team}
    body["spec"]["containers"][0]["resources"]["requests"][NETWORK] = "1"
    return body


async def workload(api: Api, namespace: str) -> dict[str, Any]:
    found = await api.call("GET", f"{KUEUE}/namespaces/{namespace}/workloads")
    (one,) = found["items"]
    return dict(one)


async def test_a_groups_workload_has_the_chosen_annotation_and_needs_no_excluded_quota(
    stack: Stack,
) -> None:
    async with stack.api() as api:
        await make_queue(api, "choices")
        path = "/api/v1/namespaces/choices/pods"
        for name in ("p0", "p1"):
            await api.call("POST", path, of_team(name, "a"))
        await finished(stack, api, "choices", "train", ["p0", "p1"])
        made = await workload(api, "choices")
        annotations = made["metadata"]["annotations"]
        assert annotations[TEAM] == "a" and OTHER not in annotations
        (assignment,) = made["status"]["admission"]["podSetAssignments"]
        assert assignment["resourceUsage"] == {"cpu": "2"}
        told = {condition["type"] for condition in made["status"]["conditions"]}
        assert told == {"QuotaReserved", "Admitted", "Finished"}, "nobody waits for PodsReady"


async def test_a_single_pod_does_without_a_workload_and_is_told_of_all_the_same(
    stack: Stack,
) -> None:
    async with stack.api() as api:
        await make_queue(api, "alone", cpu="1")
        path = "/api/v1/namespaces/alone/pods"
        await api.call("POST", path, pod("one", script="run=forever"))

        async def running() -> bool:
            rows = stack.sql("SELECT state FROM groups WHERE namespace = 'alone'")
            return [row["state"] for row in rows] == ["Running"]

        await api.until("the pod runs", running)
        found = await api.call("GET", f"{KUEUE}/namespaces/alone/workloads")
        assert not found["items"]
        said = " ".join(stack.command("why", "alone/one").stdout.split())
        assert "no Workload single pods do without (queueing.workloads=groups)" in said
        assert "1 single pods do without" in " ".join(stack.command("doctor").stdout.split())
        stopped = stack.command("stop", "group", "alone/one")
        assert stopped.returncode and "delete the pod" in stopped.stderr
        await api.call("DELETE", f"{path}/one?gracePeriodSeconds=0")

        async def over() -> bool:
            rows = stack.sql(
                "SELECT released_at FROM admissions JOIN groups ON group_id = groups.id "
                "WHERE namespace = 'alone' AND released_at IS NOT NULL"
            )
            return bool(rows)

        await api.until("its quota is given back", over)


async def test_pods_that_differ_in_it_wait_and_why_says_so(stack: Stack) -> None:
    async with stack.api() as api:
        await make_queue(api, "differ")
        path = "/api/v1/namespaces/differ/pods"
        for name, team in (("p0", "a"), ("p1", "b")):
            await api.call("POST", path, of_team(name, team))

        async def message() -> str:
            rows = stack.sql(
                "SELECT message FROM groups WHERE namespace = 'differ' AND state = 'Blocked' "
                "AND reason = 'DifferentAnnotations'"
            )
            return str(rows[0]["message"]) if rows else ""

        said = await api.until("the group is blocked", message)
        # The older is named first, by the clock of the API server: whole seconds, then the uid.
        assert said in (
            f"pods 'p0' and 'p1' have different '{TEAM}' values: a and b",
            f"pods 'p1' and 'p0' have different '{TEAM}' values: b and a",
        )
        why = " ".join(stack.command("why", "differ/train").stdout.split())
        assert "queueing.annotation_keys_to_copy" in why
