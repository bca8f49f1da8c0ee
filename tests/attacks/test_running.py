"""Attacks on the quota by tenants whose pods run: labels, gates, grace periods, sizes.

Each is tried with admission as it is installed, and with the refusals taken away: what an admission
policy that was not there, or was got past, does not refuse the core has to bear.
"""

import asyncio
from typing import Any

import pytest

from podgroup.model.names import ADMISSION_GATE, ADMITTED_CONDITION, MANAGED_LABEL, POD_FINALIZER
from tests.attacks.conftest import CPUS, Attack, runs
from tests.support.processes import KUEUE

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

YEAR_S = 365 * 86_400
DAY_S = 86_400
LINGER = "run=forever,linger=forever"


async def next_waits(attack: Attack, cpu: str = "8") -> None:
    """Another tenant's pod must go on waiting: wait until it is known to, and look again."""
    await attack.create("next", cpu=cpu)
    await attack.until_waiting("next")
    assert await gated(attack, "next")


async def gated(attack: Attack, name: str) -> bool:
    pod = await attack.get(name)
    assert pod is not None
    return bool(pod["spec"].get("schedulingGates"))


async def ends(attack: Attack, name: str, phase: str = "Failed") -> None:
    """The pod's kubelet says that it has ended."""
    await attack.patch(name, {"status": {"phase": phase}}, "status")


async def test_a_grace_period_of_which_the_sum_wraps_around(attack: Attack) -> None:
    """deletionTimestamp is in 1734, and the pod runs on."""
    await attack.create("free", cpu="8", script=LINGER)
    await attack.until_running("free")
    asked = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 9_223_372_037}
    gone = await attack.api.call("DELETE", f"{attack.base}/free", asked)
    assert gone["metadata"]["deletionTimestamp"].startswith("1734-08-")
    await next_waits(attack)

    async def shortened() -> bool:
        pod = await attack.get("free")
        assert pod is not None and runs(pod)
        return bool(pod["metadata"]["deletionGracePeriodSeconds"] == DAY_S)

    await attack.api.until("it has a day to end", shortened)
    assert await gated(attack, "next")
    await ends(attack, "free")

    async def started() -> bool:
        return not await gated(attack, "next")

    await attack.api.until("next starts", started)


@pytest.mark.parametrize("group", ["", "g"])
async def test_label_taken_off_a_running_pod(attack: Attack, group: str) -> None:
    await attack.without_refusals()
    names = ["big-0", "big-1"] if group else ["big-0"]
    for name in names:
        await attack.create(name, group, len(names), cpu="4" if group else "8")
    await attack.until_running(*names)
    title = group or "big-0"
    await next_waits(attack)
    for name in names:
        await attack.patch(name, {"metadata": {"labels": {MANAGED_LABEL: None}}})

    async def labelled() -> bool:
        found = await attack.api.pods(attack.namespace)
        return all(MANAGED_LABEL in found[name]["metadata"]["labels"] for name in names)

    await attack.api.until("the label is back", labelled)
    for name in names:
        pod = await attack.get(name)
        assert pod is not None and runs(pod) and POD_FINALIZER in pod["metadata"]["finalizers"]
    assert await gated(attack, "next") and attack.group(title)["state"] == "Running"
    assert attack.holders() == [title]
    workload = await attack.workload(attack.group(title)["workload_name"])
    assert workload is not None
    assert "Finished" not in {c["type"] for c in workload["status"]["conditions"]}
    assert "label taken off, or gone" in attack.history(title)
    events = await attack.api.call(
        "GET", f"/apis/events.k8s.io/v1/namespaces/{attack.namespace}/events"
    )
    assert "LabelPutBack" in {event["reason"] for event in events["items"]}
    for name in names:
        await ends(attack, name, "Succeeded")
    await attack.until_running("next")


async def test_label_taken_off_again_and_again(attack: Attack) -> None:
    await attack.without_refusals()
    await attack.create("big", cpu="8")
    await attack.until_running("big")
    await next_waits(attack)
    reasons = set()

    async def taken_off() -> int:
        """Returns how often it was put back so far."""
        await attack.patch("big", {"metadata": {"labels": {MANAGED_LABEL: None}}})
        await asyncio.sleep(0.1)
        reasons.add(attack.group("big")["reason"])
        kept = attack.stack.sql(
            "SELECT count(*) AS n FROM decisions d JOIN groups g ON g.id = d.group_id "
            "WHERE g.namespace = ? AND d.action = 'KeepPod'",
            attack.namespace,
        )
        return int(kept[0]["n"])

    often = max([await taken_off() for _ in range(20)])
    assert 2 <= often <= 4, "paced: 20 in two seconds"
    assert "Unmanaged" in reasons, "it is said while it lasts"
    assert await gated(attack, "next")
    while often < 3:
        often = await taken_off()
    assert "put back" in attack.why("big") and "audit" in attack.why("big")
    found = attack.stack.doctor()["writes"]
    assert found["verdict"] == "warn" and f"{attack.namespace}/big" in found["detail"]


async def test_all_labels_and_the_finalizer_taken_off(attack: Attack) -> None:
    await attack.without_refusals()
    await attack.create("big", "g", 1, cpu="8")
    await attack.until_running("big")
    await next_waits(attack)
    pod = await attack.get("big")
    assert pod is not None
    nothing: dict[str, Any] = dict.fromkeys(pod["metadata"]["labels"])
    await attack.patch("big", {"metadata": {"labels": nothing, "finalizers": None}})

    async def labelled() -> bool:
        found = await attack.get("big")
        return found is not None and MANAGED_LABEL in (found["metadata"].get("labels") or {})

    await attack.api.until("the label is back", labelled)
    assert await gated(attack, "next") and attack.group("g")["state"] == "Running"
    await attack.delete("big")
    await attack.until_running("next")
    assert attack.holders() == ["next"]


async def test_pod_without_label_is_gone_before_anybody_looks(attack: Attack) -> None:
    """Its group must not be named as a holder for ever."""
    await attack.without_refusals()
    await attack.create("big", "g", 1, cpu="8")
    await attack.until_running("big")
    attack.stack.up.stop()
    body = {"metadata": {"labels": {MANAGED_LABEL: None}, "finalizers": None}}
    await attack.patch("big", body)
    await attack.delete("big", gracePeriodSeconds=0)
    attack.stack.start()
    await attack.create("next", cpu="8")
    await attack.until_running("next")
    assert attack.holders() == ["next"]


@pytest.mark.parametrize("group", ["", "g"])
async def test_user_takes_the_gate_off_with_a_year_of_grace(attack: Attack, group: str) -> None:
    await attack.without_refusals()
    await attack.create("hog", cpu=str(CPUS - 2))
    await attack.until_running("hog")
    await attack.create(
        "sly",
        group,
        1 if group else 0,
        cpu="8",
        script=LINGER,
        terminationGracePeriodSeconds=YEAR_S,
    )
    title = group or "sly"
    await attack.until_waiting(title)
    attack.observer.excused.add(f"{attack.namespace}/sly")
    name = attack.group(title)["workload_name"]
    await attack.ungate("sly")
    await attack.delete("hog")
    if not group:  # a group may be admitted meanwhile, and waits for a pod in place of this one
        await attack.create("next", cpu="8")

    async def stopped() -> bool:
        pod = await attack.get("sly")
        if pod is None or not runs(pod):
            return True
        workload = await attack.workload(name)
        said = (workload or {}).get("status", {}).get("conditions") or ()
        let_go = workload is None or "Finished" in {c["type"] for c in said}
        if let_go or POD_FINALIZER not in pod["metadata"]["finalizers"]:
            pod = await attack.get("sly")
            assert pod is None or not runs(pod), "let go of while it runs"
        return False

    await attack.api.until("it is stopped within seconds", stopped, 20)
    if not group:
        await attack.until_running("next")


@pytest.mark.parametrize("how", ["preempted", "deleted"])
async def test_a_single_pod_that_takes_a_day_to_stop(attack: Attack, how: str) -> None:
    await attack.create("slow", cpu="8", script=LINGER, terminationGracePeriodSeconds=DAY_S)
    await attack.until_running("slow")
    if how == "preempted":
        version = KUEUE.removeprefix("/apis/")
        await attack.api.call(
            "POST",
            f"{KUEUE}/workloadpriorityclasses",
            {
                "apiVersion": version,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": "urgent"},
                "value": 1000,
            },
            ok=(),
        )
    else:
        await attack.delete("slow")
    await attack.create(
        "next",
        cpu="8",
        labels={"kueue.x-k8s.io/priority-class": "urgent"} if how == "preempted" else None,
    )

    async def told() -> bool:
        pod = await attack.get("slow")
        return pod is not None and "deletionTimestamp" in pod["metadata"]

    await attack.api.until("it is told to stop", told)
    await attack.until_waiting("next")
    pod = await attack.get("slow")
    assert pod is not None and runs(pod) and POD_FINALIZER in pod["metadata"]["finalizers"]
    assert await gated(attack, "next")
    await ends(attack, "slow")
    await attack.until_running("next")


async def test_in_place_resize(attack: Attack) -> None:
    await attack.create("small", cpu="10m")
    await attack.until_running("small")
    container = {"name": "job", "image": "job", "resources": {"requests": {"cpu": "9"}}}
    await attack.patch("small", {"spec": {"containers": [container]}}, "resize")

    async def charged() -> bool:
        return "LargerThanAdmitted" in attack.group("small").get("reason", "")

    await attack.api.until("it is charged", charged)
    await next_waits(attack)
    assert "8990m cpu" in attack.why("small") and "resized small" in attack.history("small")
    container["resources"] = {"requests": {"cpu": "20m"}}
    await attack.patch("small", {"spec": {"containers": [container]}}, "resize")
    await attack.until_running("next")


async def test_junk_on_a_pod_hides_neither_what_it_takes_nor_its_end(attack: Attack) -> None:
    """Admission was away, or it was there before: its owner had made it unreadable."""
    await attack.without_refusals()
    junk = {"metadata": {"annotations": {"kueue.x-k8s.io/junk": "x" * 5000}}}
    await attack.create("sly", cpu="10m")
    await attack.create("huge", cpu="1e300")
    await attack.until_running("sly")
    await attack.patch("sly", junk)
    container = {"name": "job", "image": "job", "resources": {"requests": {"cpu": "9"}}}
    await attack.patch("sly", {"spec": {"containers": [container]}}, "resize")
    await next_waits(attack)
    await attack.delete("huge")
    await attack.delete("sly")
    await attack.until_running("next")

    async def gone() -> bool:
        return not {"sly", "huge"} & set(await attack.api.pods(attack.namespace))

    await attack.api.until("both are let go", gone)  # quota is free before their finalizers are


async def test_resize_of_a_pod_at_its_gate(attack: Attack) -> None:
    await attack.create("hog", cpu="9")
    await attack.until_running("hog")
    await attack.create("sly", cpu="2")
    await attack.until_waiting("sly")
    container = {"name": "job", "image": "job", "resources": {"requests": {"cpu": "39"}}}
    await attack.patch("sly", {"spec": {"containers": [container]}}, "resize")
    await attack.delete("hog")

    async def told() -> bool:
        return attack.group("sly").get("reason") == "ExceedsMaxQuota"

    await attack.api.until("it is too large", told)
    pod = await attack.get("sly")
    assert pod is not None and pod["spec"]["schedulingGates"] == [{"name": ADMISSION_GATE}]


async def test_who_runs_is_not_told_what_holds_for_a_stranger(attack: Attack) -> None:
    await attack.create("hog", cpu="9")
    await attack.until_running("hog")
    await attack.create("driver", "g", 1, cpu="8")

    async def told() -> bool:
        return await said_of(attack, "driver") == "False"

    await attack.api.until("it is told why it waits", told)
    await attack.create("stranger", "g", 1, cpu="7")
    await attack.delete("hog")
    await attack.until_running("driver")

    async def taken_back() -> bool:
        return await said_of(attack, "driver") != "False"

    await attack.api.until("that is taken back, whatever there is to tell the stranger", taken_back)
    assert await gated(attack, "stranger")


async def said_of(attack: Attack, name: str) -> str:
    """What condition gatelog.io/admitted of a pod says; "" without one."""
    pod = await attack.get(name)
    assert pod is not None
    conditions = pod["status"].get("conditions") or ()
    return next((c["status"] for c in conditions if c["type"] == ADMITTED_CONDITION), "")


async def test_somebody_elses_workload_is_named_as_prebuilt(attack: Attack) -> None:
    await attack.create("victim", cpu="8")
    await attack.until_running("victim")
    name = attack.group("victim")["workload_name"]
    await attack.create("thief", cpu="8", labels={"kueue.x-k8s.io/prebuilt-workload-name": name})

    async def refused() -> bool:
        return attack.group("thief").get("reason") == "PrebuiltWorkloadNotFound"

    await attack.api.until("it is not taken for the thief's", refused)
    assert await gated(attack, "thief") and "belongs to something else" in attack.why("thief")
    await attack.delete("victim")
    await attack.delete("thief")

    async def over() -> bool:
        states = {attack.group(name).get("state") for name in ("victim", "thief")}
        return states <= {"Gone", "Finished"} and not attack.holders()

    await attack.api.until("both end", over)
