"""Trials through the API server: who may, what they are answered, and that nothing is written."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp

from gatelog.viacluster import app
from podgroup.log import events as e
from podgroup.model.objects import LocalQueueView, NamespaceView
from tests.serve import pages
from tests.serve.conftest import World, binding, needs_kubectl
from tests.serve.test_console import served
from tests.serve.test_door import ask
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


def other_namespace_was_admitted_last(world: World) -> None:
    """Groups `secret-0` to `secret-5` of namespace other hold the rest of the quota."""
    toy = world.toy
    there = NamespaceView(uid="o", name="other", resource_version=toy.bump())
    queue = LocalQueueView(
        uid="lq-o", namespace="other", name="lq", resource_version=toy.bump(), cluster_queue="cq"
    )
    for view in (there, queue, toy.cluster_queue(19)):
        toy.do(e.ObjectApplied(object=view))
    for number in range(6):
        toy.pod(f"secret-{number}", namespace="other")
    done = world.writer.world.meta.position
    world.writer.feed([one for one in toy.messages if one[0] > done])


async def test_a_group_of_another_namespace_is_not_named(world: World) -> None:
    """A user who may not see other namespaces is shown no more of their groups than by `why`."""
    await allowed(world)
    other_namespace_was_admitted_last(world)
    status, found = await asked(world, trial(job(5, priority="high")))
    assert status == 201
    (group,) = found["status"]["groups"]
    assert group["reason"] == "WaitingForPreemptedWorkloads"
    assert [(one["namespace"], one["name"]) for one in group["victims"]] == [("", "")] * 5
    assert "secret" not in json.dumps(found["status"]) and "other" not in json.dumps(group["said"])
    ann = {"Authorization": "Bearer ann-token"}
    form = {"namespace": "ns", "manifest": job(5, priority="high")}
    status, text = await ask(world, "/try", ann, form=form)
    assert status == 200 and "a group of another namespace" in text and "secret" not in text


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
    body = {**trial(job(1, queue="", group=False)), "metadata": {"namespace": "ns"}}
    file.write_text(json.dumps(body))
    create = ("create", "--validate=false", "-f", str(file), "-o", "json")
    done = await world.kubectl(*create, user="ann")
    assert done[0] == 0 and json.loads(done[1])["status"]["verdict"] == "passes", done
    file.write_text(job(1))
    given = ["try", "-f", str(file), "-n", "ns", "--kubeconfig", str(world.kubeconfig("bob"))]
    assert await asyncio.to_thread(app.run, given) == 1


SAME = {"Sec-Fetch-Site": "same-origin"}


async def posted(
    address: str, manifest: str, namespace: str = "ns", **headers: str
) -> tuple[int, str]:
    """Send the console's form as a browser does, or as another."""
    form = {"namespace": namespace, "manifest": manifest}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{address}/try", data=form, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_the_console_answers_a_form_without_script(sqlite_model: Any) -> None:
    async for address in served(sqlite_model[0]):
        status, text = await posted(address, job(9), **SAME)
        assert status == 200 and pages.problems(text) == []
        assert "ExceedsMaxQuota" in text and "data-live" not in text
        status, text = await posted(address, "<script>", **SAME)
        assert status == 200 and "<script>" not in re.sub("<script src[^>]*>", "", text)
        assert "is refused" in text
        status, text = await posted(address, job(9))
        assert status == 200, "curl says nothing of a site, and has its own rights alone"


async def test_forms_of_other_sites_are_refused(sqlite_model: Any) -> None:
    async for address in served(sqlite_model[0]):
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}, {"Host": "evil.com"}):
            status, text = await posted(address, job(1), **headers)
            assert status == 403, text
        async with aiohttp.ClientSession() as http:
            async with http.post(f"{address}/try", json={}) as answer:
                assert answer.status == 400
            async with http.post(f"{address}/groups", data={}) as answer:
                assert answer.status == 405


async def test_in_a_cluster_the_form_needs_the_right_to_try(world: World) -> None:
    form = {"namespace": "ns", "manifest": job(1)}
    ann = {"Authorization": "Bearer ann-token"}
    assert (await ask(world, "/try", ann, form=form))[0] == 403
    await allowed(world)
    await asyncio.sleep(world.settings.serve.review_cache_s)
    status, text = await ask(world, "/try", ann, form=form)
    assert status == 200 and "would" in text
