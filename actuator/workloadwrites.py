"""Carrying out commands on Workloads: read, plan purely, write with the version just read.

Theory. A Workload has several writers (Kueue's scheduler, webhooks, people), so every write is made
from a version that the server showed us and guarded by it; a conflict starts the command over,
which costs two requests and never another writer's update. The version is that of our last write,
if a try is worth it (`workloadcache`), else of a fresh read. Creating is the exception: the name is
the guard, and if the name is taken, the outcome depends on whether the object is the Workload that
we would have made.

With gatelog's own CRD a Workload is created with its status, at a version without the subresource:
2.3 ms of the API server's processor time where two writes take 5.9 (kube-apiserver 1.36, medians of
five times 40 by turns, load 11 to 20). Where the API server refuses that, as by a policy, or lacks
the version, the Workload is created without status, and the status follows in a second write; where
refusals go on, the first way is tried only once in a while (`workloadcache.Guess`).

A Workload that is a mirror (builtin mode) and too large for the API server or etcd is written once
more with templates that lack fields that are not counted. A Workload that is too large even so, or
must be whole for Kueue, is refused for good, with a message that names its largest fields.

Invariant: every write is computed from exactly the version that it replaces.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from actuator import workload_status, workloads
from actuator.fence import outside
from actuator.kubeapi import JSON_PATCH, MERGE_PATCH, KubeApi
from actuator.patches import Conflict, Patch, Plan, Unchanged, delete_options
from actuator.replies import Reply
from actuator.verdicts import Verdict, applied, gone_from, judge, obsolete, rejected, too_large
from podgroup.model.commands import (
    CreateWorkload,
    FinalizeWorkload,
    ObjectRef,
    PodSetSpec,
    UpdateWorkload,
    WriteWorkloadStatus,
)


async def create(api: KubeApi, command: CreateWorkload, at: datetime) -> Verdict:
    """Create a Workload from live samples; an existing Workload may be ours.

    `at` is the time of the decision.
    """
    samples = await _samples(api, command.pod_sets)
    if isinstance(samples, Verdict):
        return samples
    version = await api.workload_version()
    body = workloads.workload(command, samples, version or workloads.VERSIONS[0])
    reply = await _create(api, command, body, at)
    if too_large(reply):
        if not command.trim:
            return _too_large(reply, body)
        less = workloads.trimmed(body)
        reply = await _create(api, command, less, at)
        if reply.ok:
            said = "the templates lack env, args, volumes and the like: with them"
            return applied(reply, f"{reply.verb} {reply.path}: {said} {workloads.heaviest(body)}")
        if too_large(reply):
            return _too_large(reply, less)
    if reply.status != 409 or not reply.there_already:
        return judge(reply)
    found = await api.get(command.target)
    if found.status == 404:
        return _again(reply)
    if not found.ok:
        return judge(found)
    live = found.object()
    if live["metadata"].get("deletionTimestamp"):
        if workloads.made_for(command, live):
            return applied(found, f"{found.path}: was made, and is being deleted by now")
        return Verdict(
            status="retrying",
            http_status=reply.status,
            message=f"{found.path}: a Workload of that name is being deleted; waiting for it to go",
        )
    if workloads.ours(command, live):
        return applied(found, f"{found.path}: exists already and is ours")
    return rejected(f"{found.path}: a Workload of that name exists and is not ours", 409)


def _too_large(reply: Reply, body: dict[str, object]) -> Verdict:
    verdict = judge(reply)
    size = f"too large for the API server: {workloads.heaviest(body)}"
    return rejected(f"{size}; {verdict.message}", verdict.http_status)


async def _create(
    api: KubeApi, command: CreateWorkload, body: dict[str, object], at: datetime
) -> Reply:
    guess, refused = api.with_status, False
    if command.status is not None and api.takes_status and guess.worth_trying():
        status = workload_status.first(command.status, workloads.VERSIONS[0], at)
        api_version = f"{workloads.GROUP}/{workloads.WITH_STATUS}"
        whole = {**body, "apiVersion": api_version, "status": status}
        reply = await api.create(command.target, whole)
        if reply.status not in (403, 422):
            guess.learn(True)
            return reply
        refused = True
    reply = await api.create(command.target, body)
    if refused and reply.ok:  # else the refusal was not for the status
        guess.learn(False)
    return reply


async def update(api: KubeApi, command: UpdateWorkload) -> Verdict:
    """Change metadata or spec."""
    samples = await _samples(api, command.pod_sets or ())
    if isinstance(samples, Verdict):
        return samples
    version = await api.workload_version()

    async def write(found: Reply) -> Verdict | None:
        plan = workloads.update(command, found.object(), samples, version)
        return await _patch(api, command.target, found, plan)

    return await _from_live(api, command.target, write)


async def write_status(api: KubeApi, command: WriteWorkloadStatus, at: datetime) -> Verdict:
    """Merge into the status. `at` is the time of the decision."""
    version = await api.workload_version()

    async def write(found: Reply) -> Verdict | None:
        body = workload_status.status(command, found.object(), version, at)
        if body is None:
            return None
        return judge(await api.patch(command.target, body, MERGE_PATCH, subresource="status"))

    return await _from_live(api, command.target, write)


async def finalize(api: KubeApi, command: FinalizeWorkload) -> Verdict:
    """Take our finalizer out and, if so commanded, delete."""
    target = command.target

    async def write(found: Reply) -> Verdict | None:
        plan = workloads.without_finalizer(found.object())
        verdict = await _patch(api, target, found, plan)
        if verdict is not None and verdict.status == "obsolete":
            return applied(found, f"{found.path}: went away meanwhile", uid=found.uid)
        return verdict

    verdict = await _from_live(api, target, write)
    if verdict.status != "applied" or not command.delete:
        return verdict
    reply = await api.delete(target, delete_options(verdict.uid))
    if reply.ok:
        return applied(reply, uid=verdict.uid, version=verdict.resource_version)
    if reply.status == 409:
        reply = await api.get(target)
        if reply.ok and reply.uid == verdict.uid:
            return _again(reply)
    if reply.status == 404 or reply.ok:
        return verdict
    return judge(reply)


async def _from_live(
    api: KubeApi, target: ObjectRef, write: Callable[[Reply], Awaitable[Verdict | None]]
) -> Verdict:
    """Let `write` work on the live object; None from `write` means that nothing is to change.

    The copy from our last write is tried first. It counts only if the API server takes the write
    made from it; else the object is read.
    """
    copy = api.workloads.recall(target)
    if copy is not None:
        verdict = await write(copy)
        if verdict is not None:
            fresh = not verdict.again and verdict.status != "obsolete"
            api.workloads.guess.learn(fresh)
            if fresh:
                return verdict
    found = await api.get(target)
    so_already = applied(found, f"{found.path}: is so already")
    return gone_from(found, target) or await write(found) or so_already


async def _patch(api: KubeApi, target: ObjectRef, found: Reply, plan: Plan) -> Verdict | None:
    match plan:
        case Unchanged():
            return None
        case Conflict(message=message):
            return rejected(f"{found.path}: {message}")
        case Patch(operations=operations):
            return judge(await api.patch(target, operations, JSON_PATCH))


async def _samples(
    api: KubeApi, pod_sets: Sequence[PodSetSpec]
) -> dict[str, dict[str, object]] | Verdict:
    """Return the sample pod of every podset that names one, or why they cannot be read now."""
    wanted = [(item.name, item.sample) for item in pod_sets if item.sample is not None]
    replies = await asyncio.gather(*(_sample(api, sample) for _, sample in wanted))
    for (name, sample), reply in zip(wanted, replies, strict=True):
        gone = gone_from(reply, sample)
        if gone is not None and gone.status == "obsolete":
            return obsolete(
                f"podset {name!r}: its sample pod {sample.namespace}/{sample.name} "
                f"is gone; to be decided anew once that is known ({gone.message})"
            )
        if gone is not None:
            return gone
        why = outside(reply.object())
        if why:
            return rejected(f"podset {name!r}: {reply.path}: {why}")
    return {name: reply.object() for (name, _), reply in zip(wanted, replies, strict=True)}


async def _sample(api: KubeApi, sample: ObjectRef) -> Reply:
    return await api.ungated.take(sample.uid) or await api.glance(sample)


def _again(reply: Reply) -> Verdict:
    return Verdict(
        status="retrying",
        http_status=409,
        message=f"{reply.verb} {reply.path}: changed meanwhile",
        again=True,
    )
