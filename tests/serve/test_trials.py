"""Trials through the API server: who may, what they are told, and that nothing is written."""

import asyncio
import json
from pathlib import Path
from typing import Any

from gatelog.viacluster import app
from tests.serve.conftest import World, binding, needs_kubectl
from tests.trial.test_answers import job

PATH = "/apis/gatelog.io/v1beta1/namespaces/{}/podgrouptrials"
TRIALS = "gatelog-ledger-trials"


async def allowed(world: World, user: str = "ann", namespace: str = "ns") -> None:
    """Let a user try pods in a namespace."""
    role = binding("RoleBinding", user, TRIALS)
    await world.cluster.create("rbac.authorization.k8s.io", "rolebindings", role, namespace)


def trial(manifest: str) -> dict[str, Any]:
    return {
        "apiVersion": "gatelog.io/v1beta1",
        "kind": "PodGroupTrial",
        "spec": {"manifest": manifest},
    }


async def asked(
    world: World, body: Any, user: str = "ann", namespace: str = "ns"
) -> tuple[int, Any]:
    path = PATH.format(namespace)
    status, found, _ = await world.client(user).request("POST", path, body=body)
    return status, found


async def test_who_may_create_trials_is_answered_and_nothing_is_written(world: World) -> None:
    status, found = await asked(world, trial(job(2)))
    assert status == 403 and "cannot create" in found["message"]
    await allowed(world)
    await asyncio.sleep(world.settings.serve.review_cache_s)
    model = Path(world.url.removeprefix("sqlite:///"))
    before = model.read_bytes()
    status, found = await asked(world, trial(job(9)))
    assert status == 201, found
    assert found["kind"] == "PodGroupTrial"
    (group,) = found["status"]["groups"]
    assert (found["status"]["verdict"], group["reason"]) == ("waits", "ExceedsMaxQuota")
    assert group["clusterQueue"] == "cq"
    status, found = await asked(world, trial(job(1)), namespace="other")
    assert status == 403
    assert model.read_bytes() == before


async def test_objects_of_other_namespaces_are_refused(world: World) -> None:
    await allowed(world)
    status, found = await asked(world, trial(job(1).replace('"ns"', '"other"')))
    assert status == 201
    (refusal,) = found["status"]["refusals"]
    assert refusal["field"] == "metadata.namespace"


async def test_what_is_no_trial_is_refused(world: World) -> None:
    await allowed(world)
    for body, code in (
        ({"kind": "Pod"}, 400),
        ({**trial(""), "spec": {"manifest": 1}}, 400),
        (trial("x" * 300_000), 413),
    ):
        status, found = await asked(world, body)
        assert (status, found["kind"]) == (code, "Status"), found
    status, found, _ = await world.client().request(
        "POST", "/apis/gatelog.io/v1beta1/namespaces/ns/podgroups", body={}
    )
    assert status == 405
    status, found = await asked(world, trial("["))
    assert found["status"]["verdict"] == "refused"


async def test_a_victim_of_another_namespace_is_not_named(world: World) -> None:
    """`far` of namespace other is preempted: ann is told of a group, not which."""
    await allowed(world)
    status, found = await asked(world, trial(job(5, priority="high")))
    assert status == 201
    (group,) = found["status"]["groups"]
    assert group["reason"] == "WaitingForPreemptedWorkloads"
    assert group["victims"] and "far" not in json.dumps(found["status"])


@needs_kubectl
async def test_kubectl_gatelog_try(world: World, tmp_path: Path) -> None:
    await allowed(world)
    file = tmp_path / "job.json"
    for text, code, words in (
        (job(1), 1, "would wait"),
        (job(1, queue="", group=False), 0, "is not queued"),
        (job(1)[:-1], 2, "is refused"),
    ):
        file.write_text(text)
        done = await world.kubectl("gatelog", "try", "-f", str(file), "-n", "ns", user="ann")
        assert done[0] == code and words in done[1], done
    file.write_text(job(1))
    told = ["try", "-f", str(file), "-n", "ns", "--kubeconfig", str(world.kubeconfig("bob"))]
    assert await asyncio.to_thread(app.run, told) == 1
