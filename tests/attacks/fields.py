"""Every field that a user can write, at its extremes, at stages of a group's life, by each way in.

    python -m tests.attacks.fields 300                so many drawn by each of `WAYS`
    python -m tests.attacks.fields all                all of them
    python -m tests.attacks.fields 300 policy         by one way

On the stand-in, or on the control plane that GATELOG_TEST_KUBECONFIG names. Fields are those that
code reads (`tests.support.fields`), so a new one is among them. The judges know nothing of the
fields: the API server's own view of what runs (`observer`), the read model, and a neighbour.

A way is how admission is installed; `past` is past the door: what refuses is taken away first.
"""

import asyncio
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from podgroup.model import names
from tests.attacks.conftest import HOOKS, POLICIES
from tests.attacks.observer import Observer
from tests.support import fields
from tests.support.processes import KUEUE, Api, make_queue, pod
from tests.support.realcluster import until_lenient
from tests.support.stack import Stack, running_stack

WAYS = ("webhook", "policy", "past")
POD_STAGES = ("created", "gated", "running", "resized", "deleting", "preempted", "ended")
AT_ONCE = 12
CPUS = 2
GRACES = (*fields.NUMBERS, 9_223_372_037, 31_536_000)
DELETE_OPTIONS = (
    fields.Field("DeleteOptions", "gracePeriodSeconds", GRACES),
    fields.Field("DeleteOptions", "propagationPolicy", ("Orphan", "Foreground", "x", "")),
    fields.Field("DeleteOptions", "preconditions.uid", fields.TEXTS),
)
QUEUES = {
    "ClusterQueue": "clusterqueues/cq-{0}",
    "LocalQueue": "namespaces/{0}/localqueues/user-queue",
    "Cohort": "cohorts/co-{0}",
}
"""Kinds of a namespace's own queues, which its administrator writes; the rest is everybody's."""
HIGH = "fields-high"
PATIENCE_S = 60


class Case(NamedTuple):
    """A field at an extreme, and when it is written."""

    field: fields.Field
    value: Any
    stage: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.field} = {str(self.value)[:80]!r}"


def cases() -> Iterator[Case]:
    """Yield every case of a way."""
    for field in fields.fields("Pod"):
        if field.by == "user":
            yield from (Case(field, v, stage) for stage in POD_STAGES for v in field.values)
    for field in DELETE_OPTIONS:
        late = ("gated", "running", "preempted", "ended")
        yield from (Case(field, v, stage) for stage in late for v in field.values)
    for kind in QUEUES:
        for field in fields.fields(kind):
            if field.path.startswith("spec"):
                stages = ("gated", "running")
                yield from (Case(field, v, stage) for stage in stages for v in field.values)


def _typed(kind: str) -> dict[str, str]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind}


class Slot:
    """A namespace with a queue of its own, where one case at a time is played."""

    def __init__(self, stack: Stack, api: Api, observer: Observer, name: str) -> None:
        self.stack, self.api, self.observer, self.name = stack, api, observer, name
        self.base = f"/api/v1/namespaces/{name}/pods"
        self.answer: dict[str, Any] = {}

    async def make(self) -> None:
        await make_queue(self.api, self.name, cpu=str(CPUS))
        cohort = {"metadata": {"name": f"co-{self.name}"}, "spec": {}}
        await self.api.call("POST", f"{KUEUE}/cohorts", cohort | _typed("Cohort"))

    async def play(self, case: Case) -> str:
        """Bring pods to the stage and write the field; return whose answer it was."""
        self.observer.limit(
            self.name, CPUS if case.field.kind in ("Pod", "DeleteOptions") else 10**6
        )
        if case.stage == "created":
            body = fields.put(self._pod("odd"), case.field.path, case.value)
            return await self._sent("POST", self.base, body, "application/json")
        await self._stage(case.stage)
        path = f"{self.base}/odd"
        if case.field.kind == "DeleteOptions":
            body = fields.put({}, case.field.path, case.value)
            return await self._sent("DELETE", path, body, "application/json")
        if case.field.kind in QUEUES:
            path = f"{KUEUE}/{QUEUES[case.field.kind].format(self.name)}"
        if case.stage == "resized":
            path += "/resize"
        found = await self.api.call("GET", path.removesuffix("/resize"), ok=())
        if "metadata" not in found or "code" in found:
            return "gone"
        return await self._sent(
            "PUT", path, fields.put(found, case.field.path, case.value), "application/json"
        )

    def _pod(self, name: str, cpu: str = "1", script: str = "run=forever", **more: Any) -> Any:
        return pod(name, cpu=cpu, script=script, **more)

    async def _stage(self, stage: str) -> None:
        if stage == "gated":
            await self.api.call("POST", self.base, self._pod("big", str(CPUS)))
            await self._until("big", lambda one: bool(one["spec"].get("nodeName")))
        script = "run=50ms,succeed" if stage == "ended" else "run=forever"
        await self.api.call("POST", self.base, self._pod("odd", script=script))
        if stage == "gated":
            return
        phase = "Succeeded" if stage == "ended" else "Running"
        await self._until("odd", lambda one: one["status"].get("phase") == phase)
        if stage == "deleting":
            await self.api.call("DELETE", f"{self.base}/odd", {"gracePeriodSeconds": 5})
        if stage == "preempted":
            labels = {names.PRIORITY_CLASS: HIGH}
            await self.api.call("POST", self.base, self._pod("high", str(CPUS), labels=labels))
            await self._until("odd", lambda one: "deletionTimestamp" in one["metadata"], gone=True)

    async def _until(self, name: str, check: Any, *, gone: bool = False) -> None:
        async def so() -> bool:
            found = (await self.api.pods(self.name)).get(name)
            return gone if found is None else bool(check(found))

        await self.api.until(f"{self.name}/{name} at its stage", so, PATIENCE_S)

    async def _sent(self, method: str, path: str, body: Any, kind: str) -> str:
        self.answer = await self.api.call(method, path, body, kind=kind, ok=())
        if self.answer.get("kind") != "Status" or self.answer.get("status") == "Success":
            return "accepted"
        said = str(self.answer.get("message"))
        return "door" if "denied" in said or "gatelog" in said else "server"

    async def flood(self) -> None:
        """Ask for all of the quota and more: what is credit, or was freed too soon, shows."""
        await self.api.call("DELETE", f"{self.base}/big", {"gracePeriodSeconds": 0}, ok=())
        for number in range(2 * CPUS):
            await self.api.call("POST", self.base, self._pod(f"next{number}"), ok=())

    async def clear(self, original: dict[str, Any]) -> list[str]:
        """Take away what the case left; its queues are as they were. Say what of ours stays."""
        await self.api.call("DELETE", self.base, {"gracePeriodSeconds": 0}, ok=())
        for kind, path in QUEUES.items():
            at = f"{KUEUE}/{path.format(self.name)}"
            found = await self.api.call("GET", at, ok=())
            if found.get("kind") == kind and found["spec"] != original[kind]:
                await self.api.call("PUT", at, {**found, "spec": original[kind]}, ok=())
        try:
            await self.api.until(f"{self.name} is let go", self._let_go, PATIENCE_S)
            left = []
        except AssertionError:
            left = [f"our finalizer stays on {', '.join(await self.api.pods(self.name))}"]
        for name in await self.api.pods(self.name):
            free = {"metadata": {"finalizers": None}}
            await self.api.merge(f"{self.base}/{name}", free, ok=())
        return left

    async def _let_go(self) -> bool:
        found = (await self.api.pods(self.name)).values()
        return not any(
            names.POD_FINALIZER in (one["metadata"].get("finalizers") or ()) for one in found
        )


async def specs(slot: Slot) -> dict[str, Any]:
    """Return the specs of a slot's queues."""
    found = {}
    for kind, path in QUEUES.items():
        found[kind] = (await slot.api.call("GET", f"{KUEUE}/{path.format(slot.name)}"))["spec"]
    return found


def judged(slot: Slot, case: Case, whose: str) -> list[str]:
    """Say which laws the world breaks after a case."""
    wrong = [one for one in slot.observer.over if f" {slot.name}/" in one]
    if whose == "door" and case.field.kind == "Pod":
        # Of several refusals the server gives the first, whose sentence may name the key alone.
        said, leaf = str(slot.answer.get("message")), case.field.leaf.rpartition("/")[2]
        if leaf not in said and case.field.path.split("{")[0].split("[")[0] not in said:
            wrong.append(f"the refusal does not name the field: {said[:200]}")
    known = {row["uid"] for row in slot.stack.sql("SELECT uid FROM pods")}
    for one in slot.observer.pods.values():
        meta = one["metadata"]
        gates = [gate["name"] for gate in one["spec"].get("schedulingGates") or ()]
        ours = names.ADMISSION_GATE in gates or names.POD_FINALIZER in (
            meta.get("finalizers") or ()
        )
        if meta["namespace"] == slot.name and ours and meta["uid"] not in known:
            wrong.append(f"pod {meta['name']} bears what is ours, and is not in the read model")
    return wrong


NEGATIVE = "reserved < 0 OR used < 0 OR unadmitted < 0 OR nominal < 0 OR borrowed < 0"
"""Condition on rows of `usage` that no law allows."""


def broken(stack: Stack) -> list[str]:
    """Say what is wrong whichever case it comes of: what raised, what is charged below zero."""
    raised = stack.sql("SELECT reason, message FROM parked WHERE reason <> 'DeltaRefused'")
    wrong = [f"raised: {row['reason']}: {row['message'][:300]}" for row in raised]
    wrong += [f"below zero: {row}" for row in stack.sql(f"SELECT * FROM usage WHERE {NEGATIVE}")]
    held = stack.sql("SELECT group_id, resources FROM admissions WHERE resources LIKE '%:-%'")
    return wrong + [f"an admission below zero: {row}" for row in held]


async def _at_rest(stack: Stack, most: int) -> int:
    """Return how many decisions are made in 2 s where that never is `most` or less, else 0."""
    made = stack.sql("SELECT count(*) AS n FROM decisions")[0]["n"]
    late, until = 0, time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        await asyncio.sleep(2)
        before, made = made, stack.sql("SELECT count(*) AS n FROM decisions")[0]["n"]
        late = made - before
        if late <= most:
            return 0
    return late


async def wave(
    slots: Sequence[Slot], neighbour: Slot, original: Any, drawn: Sequence[Case]
) -> tuple[Any, list[str]]:
    """Play some cases at once, each in a slot; return whose answers they got, and what is wrong."""
    stack, api = slots[0].stack, slots[0].api
    used = slots[: len(drawn)]
    whose = await asyncio.gather(*(s.play(c) for s, c in zip(used, drawn, strict=True)))
    await asyncio.gather(*(slot.flood() for slot in used))
    canary = f"canary-{time.monotonic_ns()}"
    path = neighbour.base
    await api.call("POST", path, pod(canary, script="run=50ms,succeed"))

    async def through() -> bool:
        found = (await api.pods(neighbour.name)).get(canary)
        return found is not None and found["status"].get("phase") == "Succeeded"

    wrong: list[str] = []
    try:
        await api.until("the neighbour's pod runs", through, PATIENCE_S)
    except AssertionError:
        wrong.append(f"the neighbour waits: {[str(case) for case in drawn]}")
    await api.call("DELETE", f"{path}/{canary}", {"gracePeriodSeconds": 0}, ok=())
    late = await _at_rest(stack, 4 * len(drawn))
    if late:
        wrong.append(f"{late} decisions in 2 s at rest: {[str(case) for case in drawn]}")
    for slot, case, one in zip(used, drawn, whose, strict=True):
        wrong += [f"{case}: {said}" for said in judged(slot, case, one)]
    slots[0].observer.over.clear()
    left = await asyncio.gather(*(slot.clear(original[slot.name]) for slot in used))
    wrong += [f"{case}: {one}" for case, said in zip(drawn, left, strict=True) for one in said]
    return whose, wrong + broken(stack)


async def through_door(
    stack: Stack, way: str, drawn: Sequence[Case]
) -> tuple[Counter[str], list[str]]:
    """Play cases by one way in; return the counts of answers and what is wrong."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    async with stack.api() as api, Observer(*stack.server) as observer:
        neighbour = Slot(stack, api, observer, f"neighbour-{uuid.uuid4().hex[:5]}")
        await make_queue(api, neighbour.name, cpu="1")
        high = {"metadata": {"name": HIGH}, "value": 1000} | _typed("WorkloadPriorityClass")
        found = await api.call("POST", f"{KUEUE}/workloadpriorityclasses", high, ok=())
        assert found.get("kind") == high["kind"] or found.get("code") == 409, found
        run = uuid.uuid4().hex[:5]
        slots = [Slot(stack, api, observer, f"field-{run}-{number}") for number in range(AT_ONCE)]
        await asyncio.gather(*(slot.make() for slot in slots))
        if way == "past":
            for path in (HOOKS, POLICIES):
                for one in (await api.call("GET", path))["items"]:
                    await api.call("DELETE", f"{path}/{one['metadata']['name']}")
            await until_lenient(api)
        original = {slot.name: await specs(slot) for slot in slots}
        for begin in range(0, len(drawn), AT_ONCE):
            part = drawn[begin : begin + AT_ONCE]
            whose, lawless = await wave(slots, neighbour, original, part)
            counts.update(whose)
            wrong += lawless
            for said in lawless:
                print(f"  {way}: {said}", flush=True)
            if begin // AT_ONCE % 20 == 19:
                print(f"  {way}: {begin + len(part)} of {len(drawn)}", flush=True)
    return counts, list(dict.fromkeys(wrong))


def drawn(count: int | None, seed: int = 7) -> list[Case]:
    """Return so many cases, spread over all of them; None: all."""
    every = list(cases())
    return every if count is None else random.Random(seed).sample(every, min(count, len(every)))


async def main(count: int | None, ways: Sequence[str]) -> None:
    """Play cases by each way; print counts, and end with an error if a law was broken."""
    failed = False
    for way in ways:
        began_s, some = time.monotonic(), drawn(count)
        install = "policy" if way == "policy" else "webhook"
        with tempfile.TemporaryDirectory() as folder:
            started = await asyncio.to_thread(running_stack, Path(folder), install=install)
            stack = await asyncio.to_thread(started.__enter__)
            try:
                counts, wrong = await through_door(stack, way, some)
            finally:
                await asyncio.to_thread(started.__exit__, None, None, None)
        took_s = time.monotonic() - began_s
        answers = ", ".join(f"{n} {word}" for word, n in sorted(counts.items()))
        print(
            f"{way}: {len(some)} cases ({answers}), {len(wrong)} wrong, {took_s:.0f} s", flush=True
        )
        failed = failed or bool(wrong)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    asked = None if sys.argv[1:2] == ["all"] else int(sys.argv[1])
    asyncio.run(main(asked, tuple(sys.argv[2:]) or WAYS))
