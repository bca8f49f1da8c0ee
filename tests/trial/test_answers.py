"""What is said of pods that are tried, in words, and what is not said to whom."""

import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatelog import cli
from gatelog.trial.answers import Answer
from gatelog.trial.defaults import completed
from gatelog.trial.starting import by_plays
from gatelog.trial.state import TooLarge, decidable, world_of
from gatelog.trial.telling import parts_of
from gatelog.trial.trying import Asked, NotKnown, tried
from podgroup.engine import new_world
from podgroup.log import events as e
from podgroup.model.names import PRIORITY_CLASS
from podgroup.model.objects import (
    ClusterQueueView,
    FlavorQuotas,
    FlavorView,
    LocalQueueView,
    OwnerRef,
    PriorityClassView,
    Quota,
    ResourceGroup,
    Toleration,
)
from podgroup.model.policy import Policy
from podgroup.model.roles import role_hash
from runtime.settings import Settings
from simcluster import poddefaults
from tests.core.test_laws import reloaded
from tests.forecast.test_forecast import RUN_S, one_at_a_time
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.toy import Toy
from tests.trial.test_refusals import asked


def job(pods: int, cpu: int = 1, *, group: bool = True, **spec: Any) -> str:
    """A Job with pods that go to `lq`; `priority` is a class."""
    queue = spec.pop("queue", "lq")
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    if priority := spec.pop("priority", ""):
        labels[PRIORITY_CLASS] = priority
    annotations = {}
    if group:
        labels["kueue.x-k8s.io/pod-group-name"] = "new"
        annotations["kueue.x-k8s.io/pod-group-total-count"] = str(pods)
    box = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [box], **spec},
    }
    meta = {"name": "new", "namespace": "ns"}
    found = {"parallelism": pods, "template": template}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": found})


def lines(answer: Answer) -> dict[str, str]:
    """What is said, by label: the sentences of a label in one."""
    found: dict[str, str] = {}
    for part in parts_of(answer):
        label = ""
        for line in part.lines:
            label = line.label or label
            found[label] = f"{found[label]}; {line.text}" if label in found else line.text
    return found


def test_it_starts_and_where_is_said() -> None:
    answer = asked(job(3))
    assert answer.verdict == "starts"
    (part,) = parts_of(answer)
    assert part.title == "ns/new  group, 3 pods of it here, queue lq → cq"
    assert lines(answer) == {"starts": "at once", "gets": "3 pods in flavor f"}


def test_it_waits_and_fewer_pods_would_start() -> None:
    toy = Toy(cpu=10)
    toy.pod("big", cpu=7)
    answer = asked(job(5), toy)
    assert answer.verdict == "waits"
    said = lines(answer)
    assert said["waits for"] == (
        "WaitingForQuota; needs 5 cpu; 3 are free in ClusterQueue cq (flavor f)"
    )
    assert said["position"] == "1 in ClusterQueue cq"
    assert said["would start"] == "at once with 3 pods"


def test_single_pods_of_which_the_same_is_said_are_shown_together() -> None:
    toy = Toy(cpu=10)
    toy.pod("big", cpu=8)
    parts = parts_of(asked(job(5, group=False), toy))
    assert [(part.title.partition("  ")[2], part.words) for part in parts] == [
        ("and 1 more, to new-1: single pods, queue lq → cq", "would start"),
        ("and 2 more, to new-4: single pods, queue lq → cq", "would wait"),
    ]


def test_groups_that_give_way_are_named_to_users_who_may_see_them() -> None:
    toy = Toy(cpu=10)
    toy.pod("victim", cpu=10, labels={PRIORITY_CLASS: "low"})
    answer = asked(job(2, priority="high"), toy)
    assert answer.verdict == "waits"
    assert "ns/victim" in lines(answer)["preempts"]
    assert "ns/victim" in lines(answer.own_only())["preempts"]
    others = msgspec.structs.replace(
        answer,
        groups=tuple(msgspec.structs.replace(g, namespace="other") for g in answer.groups),
    )
    assert '"victim"' not in msgspec.json.encode(others.own_only()).decode()
    assert "a group of another namespace" in lines(others.own_only())["preempts"]


def two_queues() -> Toy:
    """Queue `cq` is full; `lq2` leads to `cq2` with flavor `spot`, whose taint is not tolerated."""
    toy = Toy(cpu=2)
    toy.pod("big", cpu=2)
    taint = Toleration(key="spot", value="yes", effect="NoSchedule")
    spot = FlavorView(uid="s", name="spot", resource_version=toy.bump(), taints=(taint,))
    plain = FlavorView(uid="g", name="g", resource_version=toy.bump())
    quota = {"cpu": Quota(nominal=4000)}

    def with_flavors(queue: ClusterQueueView, *names: str) -> ClusterQueueView:
        flavors = tuple(FlavorQuotas(name=n, resources=quota) for n in names)
        return msgspec.structs.replace(
            queue, groups=(ResourceGroup(covered=("cpu",), flavors=flavors),)
        )

    cq = toy.cluster_queue(2)
    first = FlavorQuotas(name="f", resources={"cpu": Quota(nominal=2000)})
    second = FlavorQuotas(name="spot", resources=quota)
    cq = msgspec.structs.replace(
        cq, groups=(ResourceGroup(covered=("cpu",), flavors=(first, second)),)
    )
    cq2 = with_flavors(toy.cluster_queue(4), "g")
    cq2 = msgspec.structs.replace(cq2, uid="cq2", name="cq2", resource_version=toy.bump())
    lq2 = LocalQueueView(
        uid="lq2", namespace="ns", name="lq2", resource_version=toy.bump(), cluster_queue="cq2"
    )
    for view in (spot, plain, cq, cq2, lq2):
        seen = msgspec.structs.replace(view, resource_version=toy.bump())  # newer than our writes
        toy.do(e.ObjectApplied(object=seen))
    return toy


def test_another_queue_or_flavor_would_start_it() -> None:
    answer = asked(job(2), two_queues())
    assert lines(answer)["would start"] == (
        "at once in LocalQueue lq2; "
        "at once in flavor spot, with a toleration of spot=yes:NoSchedule"
    )
    tolerating = [{"key": "spot", "operator": "Exists"}]
    again = asked(job(2, tolerations=tolerating), two_queues())
    assert again.verdict == "starts" and lines(again)["gets"].endswith("in flavor spot")
    assert asked(job(2, queue="lq2"), two_queues()).verdict == "starts"


def test_of_what_never_starts_is_said_why() -> None:
    answer = asked(job(1, cpu=11))
    assert answer.groups[0].blocked
    assert "can never start: needs 11 cpu" in lines(answer)["waits for"]
    answer = asked(job(1, queue="nowhere"))
    assert answer.groups[0].reason == "LocalQueueNotFound"


def test_pods_that_name_no_queue_pass() -> None:
    answer = asked(job(2, queue="", group=False))
    assert answer.verdict == "passes"
    assert "names no queue" in lines(answer)["runs at once"]


def test_an_incomplete_group_waits_for_its_pods() -> None:
    text = job(2).replace('count": "2"', 'count": "4"')
    answer = asked(text)
    assert answer.groups[0].reason == "WaitingForPods"


def made_by(kind: str, text: str, **spec: Any) -> str:
    """The pods of a Job, made by another kind."""
    data = json.loads(text)
    spec = {"replicas": data["spec"]["parallelism"], "template": data["spec"]["template"], **spec}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    if kind == "Job":
        spec["parallelism"] = spec.pop("replicas")
    return json.dumps({**data, "apiVersion": version, "kind": kind, "spec": spec})


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("Job", {"suspend": True}, "spec.suspend"),
        ("Deployment", {"paused": True}, "spec.paused"),
    ],
)
def test_who_makes_no_pods_yet_is_said(kind: str, spec: dict[str, Any], field: str) -> None:
    answer = asked(made_by(kind, job(1), **spec))
    assert answer.verdict == "starts"
    (said,) = answer.warnings
    assert said.startswith(f"{kind} ns/new makes no pods while {field} is true")
    assert asked(made_by(kind, job(1))).warnings == ()


def test_a_group_waits_for_pods_that_come_once_others_are_ready() -> None:
    """A StatefulSet makes its second pod when the first is ready, which is at its gate."""
    answer = asked(made_by("StatefulSet", job(3)))
    assert (answer.verdict, answer.groups[0].reason) == ("waits", "WaitingForPods")
    assert "ns/new makes new-1 to new-2 each when" in lines(answer)["warning"]
    assert lines(answer)["warning"].endswith("all at once): not tried")
    answer = asked(made_by("StatefulSet", job(3), podManagementPolicy="Parallel"))
    assert (answer.verdict, answer.warnings) == ("starts", ())
    answer = asked(made_by("StatefulSet", job(3, group=False), ordinals={"start": 5}))
    assert [one.name for one in answer.groups] == ["new-5", "new-6", "new-7"]
    assert (answer.verdict, len(answer.warnings)) == ("starts", 1)


@pytest.mark.parametrize(
    ("startup", "dependent", "verdict"),
    [("AnyOrder", {}, "starts"), ("InOrder", {}, "waits"), ("", {"dependsOn": [{}]}, "waits")],
)
def test_jobs_of_a_set_that_start_in_order(
    startup: str, dependent: dict[str, Any], verdict: str
) -> None:
    spec = json.loads(job(1).replace('count": "1"', 'count": "2"'))["spec"]
    jobs = [
        {"name": n, "template": {"spec": spec}, **more} for n, more in (("a", {}), ("b", dependent))
    ]
    given = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": startup}}
    made = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s"}}
    answer = asked(json.dumps(made | {"spec": given}))
    assert (answer.verdict, len(answer.warnings)) == (verdict, verdict == "waits")


def test_pods_of_a_set_that_are_there_are_not_tried_again() -> None:
    toy = Toy(cpu=3)
    for number in range(2):
        toy.pod(f"new-{number}")
    text = made_by("StatefulSet", job(3, group=False), podManagementPolicy="Parallel")
    answer = asked(text, toy)
    assert [(one.name, one.verdict) for one in answer.groups] == [("new-2", "starts")]
    assert answer.warnings == ("StatefulSet ns/new: new-0, new-1 there already: not tried",)
    toy.pod("new-2")
    (refusal,) = asked(text, toy).refusals
    assert refusal.message == "is there already, with all its pods: choose another name"
    assert asked(job(1, group=False), toy).refusals == ()  # a Job's pods end in random letters


def test_a_job_that_is_there_is_not_made_again() -> None:
    toy = Toy()
    owner = OwnerRef(kind="Job", name="new", uid="j", controller=True)
    toy.pod("new-x7k2p", owners=(owner,))
    (refusal,) = asked(job(1), toy).refusals
    assert (refusal.field, refusal.object) == ("metadata.name", "Job ns/new")
    assert asked(made_by("Deployment", job(1)), toy).refusals == ()


def test_another_gate_keeps_a_pod_that_is_admitted() -> None:
    answer = asked(job(2, schedulingGates=[{"name": "example.com/data"}]))
    assert answer.verdict == "starts"
    assert lines(answer)["warning"] == (
        "Job ns/new starts once its scheduling gate example.com/data is taken off, too"
    )


def test_pods_beyond_an_admitted_group_say_why_they_wait() -> None:
    toy = Toy()
    toy.pod("a", group="new", total=1)
    answer = asked(job(1, cpu=2), toy)
    assert (answer.verdict, answer.groups[0].reason) == ("waits", "UnknownRole")


def pods_of(**counts: int) -> str:
    """Pods of a CPU in groups, as a List."""
    names = [(group, f"{group}-{n + 5}") for group, count in counts.items() for n in range(count)]
    items = []
    for group, name in names:
        pod = json.loads(job(2))["spec"]["template"]
        pod["metadata"] |= {"name": name, "namespace": "ns"}
        pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = group
        items.append({"apiVersion": "v1", "kind": "Pod", **pod})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def test_a_group_has_the_places_that_its_own_pods_get() -> None:
    """Of a group that is full nothing starts, whatever else of the manifest does."""
    toy = Toy(cpu=20)
    for name in ("a", "b"):
        toy.pod(f"full-{name}", group="full", total=2)
    found = {one.name: one for one in asked(pods_of(full=1, new=2), toy).groups}
    assert (found["full"].verdict, found["new"].verdict) == ("waits", "starts")
    (new,) = asked(pods_of(new=3)).groups
    assert new.said == ("beyond its count, and deleted: 1 of these pods",)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
        {"nodeSelector": {}, "initContainers": [], "priorityClassName": "urgent"},
        {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 1}}}]},
        {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
    ],
)
def test_pods_have_the_role_that_they_have_at_the_api_server(spec: dict[str, Any]) -> None:
    """As the stand-in's own defaulting, which follows recorded answers of a real one, has it."""
    plain = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}}]}
    meta = {"name": "p", "namespace": "ns"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": plain | spec}
    urgent = PriorityClassView(uid="u", name="urgent", resource_version="1", value=9)
    at_the_server = poddefaults.admitted(poddefaults.defaulted(pod), {"urgent": 9})
    ours = {"metadata": meta, "spec": completed(pod["spec"], {"urgent": urgent})}
    assert role_hash(ours) == role_hash(at_the_server)
    assert role_hash(ours) != role_hash(pod)


def test_a_pod_beyond_its_admitted_group_is_deleted() -> None:
    toy = Toy(cpu=20)
    spec = json.loads(job(2))["spec"]["template"]["spec"]
    role = role_hash({"spec": completed(spec, {})})
    for name in ("a", "b"):
        toy.pod(f"full-{name}", group="full", total=2, role=role)
    (found,) = asked(pods_of(full=1), toy).groups
    assert (found.verdict, found.reason) == ("waits", "ExcessPodDeleted")
    assert found.said == ("beyond its count, and deleted: 1 of these pods",)


def test_beside_kueue_the_pods_are_judged_and_kueue_decides() -> None:
    toy = Toy(mode="kueue")
    answer = asked(job(2).replace('"batch/v1"', '"example.com/v1"').replace("Job", "Pod"), toy)
    assert answer.verdict == "refused"
    pod = json.loads(job(1))["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **pod}
    pod["metadata"]["name"] = "p"
    answer = asked(json.dumps(pod), toy)
    assert answer.mode == "kueue" and answer.verdict == "waits"
    assert "Kueue decides" in lines(answer)["waits for"]


def test_before_everything_was_listed_nothing_is_known() -> None:
    question = Asked(text=job(1), namespace="ns", at=Toy().now)
    with pytest.raises(NotKnown, match="not known completely"):
        tried(decidable(new_world("test")), question, Settings())


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path}/read-model.sqlite3"
    migrated(found)
    toy = Toy(cpu=10)
    toy.pod("big", cpu=7)
    Writer(found).feed(toy.messages)
    return found


def test_the_command_answers_and_writes_nothing(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.json"
    model = Path(url.removeprefix("sqlite:///"))
    before = model.read_bytes()
    where = ["--db", url, "--cluster", "test"]
    for text, code in ((job(2), 0), (job(5), 1), (job(5)[:-1], 2)):
        file.write_text(text)
        assert cli.run(["try", "-f", str(file), *where]) == code
        assert cli.run(["try", "-f", str(file), *where, "-o", "json"]) == code
    out = capsys.readouterr().out
    assert "would start" in out and "would wait" in out and "is refused" in out
    assert model.read_bytes() == before
    journal = model.with_name(f"{model.name}-wal")
    assert not journal.exists() or journal.stat().st_size == 0


def test_a_file_without_an_end_is_not_read_to_it(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["try", "-f", "/dev/zero", "--db", url, "--cluster", "test"]) == 2
    assert "is larger than 1048576 bytes" in capsys.readouterr().err


def test_a_world_of_too_many_pods_is_not_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/two.sqlite3"
    migrated(url)
    toy = Toy(cpu=10)
    toy.pod("one")
    toy.pod("two")
    Writer(url).feed(toy.messages)
    assert world_of(url, "test", most_pods=2) is not None
    with pytest.raises(TooLarge, match="more than 1 pods"):
        world_of(url, "test", most_pods=1)


DEVICES = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {kueue.x-k8s.io/queue-name: lq}}
spec:
  resourceClaims: [{name: gpus, resourceClaimTemplateName: two}]
  containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]
"""


def test_devices_are_counted_by_the_claims_of_the_manifest() -> None:
    answer = asked(DEVICES, Toy(cpu=5, policy=Policy(device_classes=("gpu=gpus",))))
    assert "its ClusterQueue has no quota for gpus" in lines(answer)["waits for"]
    assert asked(DEVICES, Toy(cpu=5)).verdict == "starts"


def test_when_it_starts_is_of_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten minutes of each that waits come first, as all before took ten minutes."""
    url = f"sqlite:///{tmp_path}/waits.sqlite3"
    migrated(url)
    toy = one_at_a_time(waiting=1)
    Writer(url).feed(toy.messages)
    world = world_of(url, "test")
    assert world is not None
    asked = Asked(text=job(1, cpu=10), namespace="ns", at=toy.now)
    answer = tried(world, asked, Settings(), by_plays(url, "team", 20.0))
    (group,) = answer.groups
    assert group.start is not None and group.start.expected is not None
    wait_s = (group.start.expected - toy.now).total_seconds()
    assert abs(wait_s - (2 * RUN_S - 200)) < 60
    assert lines(answer)["expected"].startswith("starts in about 1")
    file = tmp_path / "job.json"
    file.write_text(job(1, cpu=10))
    where = ["--db", url, "--cluster", "test"]
    assert cli.run(["try", "-f", str(file), "--budget", "0s", *where]) == 1
    assert "expected" not in capsys.readouterr().out


def test_changes_are_looked_for_without_who_waits_in_vain() -> None:
    """Thousands wait: a copy of the scheduler for each change holds none of them."""
    toy = Toy(cpu=2)
    toy.pod("big", cpu=1)
    for number in range(400):
        toy.pod(f"waits-{number}", cpu=2, settle=False)
    world = decidable(reloaded(toy.world))
    scheduler = world.quotas.scheduler
    whole = len(pickle.dumps(scheduler))
    scheduler.cache.queues.forget_inadmissible()
    assert not scheduler.cache.queues.waiting
    assert len(pickle.dumps(scheduler)) < whole / 2
    assert lines(asked(job(3), toy))["would start"] == "at once with 1 pod"
