"""Why a group is where it is: the same lines everywhere, as far as one may see."""

import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from gatelog.examine.stuck import examine
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.explain import Explanation, explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rows import PoolRow, ShortRow
from gatelog.readmodel.shared import Shared, freed
from gatelog.serve.api import finding
from gatelog.serve.console.group import group
from gatelog.serve.console.groups import groups
from gatelog.serve.console.preemptions import preemptions
from gatelog.serve.console.view import PageView
from gatelog.serve.console.waiting import who_waits
from gatelog.viacluster import answers
from podgroup.log.events import ObjectApplied
from podgroup.model.names import ADMISSION_GATED_BY, PRIORITY_CLASS
from podgroup.model.names import POD_GROUP_ROLE as ROLE
from podgroup.model.objects import DeclaredSet, LocalQueueView, NamespaceView
from podgroup.model.policy import Policy
from podgroup.model.wording import first
from tests.core.test_dialects import workers
from tests.core.test_nodes import name_topology, node, relist, topology
from tests.projector.support import Writer, busy_toy
from tests.support.toy import Toy

NOW = datetime(2026, 2, 1, tzinfo=UTC)


def asked(url: str, name: str) -> Explanation:
    with ReadModel(url, "test") as model:
        return explain(model, model.groups("ns", name)[0], NOW)


def said(found: Explanation, *, own_only: bool = False) -> str:
    return "\n".join(f"{one.label}: {one.text}" for one in lines(found, NOW, own_only=own_only))


@pytest.fixture
def told(url: str) -> str:
    toy = busy_toy()
    toy.end("a1", "a2", "a3", phase="Failed") if not toy.gated("a3") else toy.end("a1", "a2")
    Writer(url).feed(toy.messages)
    return url


def test_who_waits_for_quota_is_told_position_need_and_holders(told: str) -> None:
    text = said(asked(told, "c"))
    for words in (
        "waits for: WaitingForQuota",
        "position: 1 in",
        "held by: ns/",
        "ns/b 3 cpu",
        "it takes: ",
    ):
        assert words in text


def test_why_and_console_say_first_which_limit_keeps_a_group_from_ever_starting(url: str) -> None:
    toy = Toy(cpu=2)
    toy.pod("huge", cpu=3)
    Writer(url).feed(toy.messages)
    limit = (
        "can never start: needs 3 cpu; ClusterQueue cq can have 2 at most (flavor f): its "
        "nominalQuota, which administrators of ClusterQueues may raise"
    )
    assert lines(asked(url, "huge"), NOW)[1].text == limit
    with ReadModel(url, "test") as model:
        seen = PageView(at=None, query={}, now=NOW)
        page = str(group(Asked(model), seen, "ns", "huge").body)
    assert limit in page[: page.index("<h2>")]


def test_what_a_queue_can_have_at_most_is_said_as_of_now(url: str) -> None:
    """A quota was raised, and still not enough: `why` and the list went on with the old one."""
    toy = Toy(cpu=2)
    toy.pod("huge", cpu=30)
    toy.wait(60)
    toy.do(ObjectApplied(object=toy.cluster_queue(20)))
    Writer(url).feed(toy.messages)
    text = said(asked(url, "huge")).partition("before that")[0]
    assert "ClusterQueue cq can have 20 at most" in text and "2 at most" not in text
    with ReadModel(url, "test") as model:
        (short,) = model.shared(model.groups("ns", "huge")[0].id).short
    assert short.available == 20_000


def test_what_a_person_stopped_takes_a_person_before_it_takes_pods(url: str) -> None:
    """Its pods were gone: `why` asked for new ones, which would have waited as well."""
    toy = Toy(cpu=4)
    for name in ("a1", "a2"):
        toy.pod(name, "a", 2)
    toy.run("a1", "a2")
    toy.put_workload(msgspec.structs.replace(toy.workloads["a"], active=False))
    toy.settle()
    writer, fed = Writer(url), len(toy.messages)
    writer.feed(toy.messages)
    text = said(asked(url, "a"))
    assert "waits for: Deactivated" in text and "gatelog resume group ns/a" in text
    toy.put_workload(msgspec.structs.replace(toy.workloads["a"], active=True))
    toy.settle()
    writer.feed(toy.messages[fed:])
    text = said(asked(url, "a"))
    assert "waits for: WaitingForReplacementPods" in text
    assert "0 of 2 pods exist; create 2 more" in text


def test_who_holds_quota_is_not_named_to_a_group_that_waits_for_something_else(url: str) -> None:
    toy = Toy(cpu=2)
    toy.pod("held", cpu=2)
    toy.pod("other", cpu=2)
    toy.pod("gated", cpu=2, annotations={ADMISSION_GATED_BY: "example.com/budget"})
    Writer(url).feed(toy.messages)
    text = said(asked(url, "gated"))
    assert "waits for: AdmissionGated" in text and "held by" not in text
    assert "held by: ns/held" in said(asked(url, "other"))


def test_holders_beyond_those_that_are_named_are_added_up(url: str) -> None:
    toy = Toy(cpu=10)
    for number in range(8):
        toy.pod(f"h{number}")
    toy.pod("big", cpu=9)
    Writer(url).feed(toy.messages)
    found = asked(url, "big")
    text = said(found)
    assert text.count(": ns/h") == 5 and "ns/h5" not in text
    assert ": and 3 more: 3 cpu of f" in text
    own = msgspec.structs.replace(found, group=msgspec.structs.replace(found.group, namespace="x"))
    assert "held by: 8 groups of other namespaces: 8 cpu of f" in said(own, own_only=True)


def test_why_says_whose_node_has_not_said_that_a_deleted_pod_ended(url: str) -> None:
    toy = Toy(cpu=2)
    toy.slow = True
    toy.pod("limbo", cpu=2)
    toy.run("limbo")
    toy.pod("waits", cpu=2)
    toy.change(toy.named("limbo").uid, deleted_at=toy.now, grace_s=1, node="node-2")
    Writer(url).feed(toy.messages)
    waits, own = said(asked(url, "waits")), said(asked(url, "limbo"))
    assert "; should have ended 31 d ago, and its node has not said so)" in waits
    assert "unknown: pod limbo should have ended 31 d ago; node node-2 has not said so" in own
    assert "kubectl delete node" in own and "kubectl delete node" not in waits


def test_groups_of_other_namespaces_are_added_up_and_not_named(told: str) -> None:
    found = asked(told, "c")
    theirs = [msgspec.structs.replace(one, namespace="secret") for one in found.holders]
    found = msgspec.structs.replace(found, holders=theirs)
    assert "secret/b" in said(found)
    masked = said(found, own_only=True)
    assert "secret" not in masked
    assert "of other namespaces: " in masked and " cpu of f" in masked


def test_a_preemptor_of_another_namespace_is_not_named_to_who_sees_one(url: str) -> None:
    toy = Toy(cpu=2)
    theirs = LocalQueueView(
        uid="lq2", namespace="secret", name="lq", resource_version=toy.bump(), cluster_queue="cq"
    )
    space = NamespaceView(uid="n2", name="secret", resource_version=toy.bump())
    toy.do(ObjectApplied(object=space), ObjectApplied(object=theirs))
    toy.pod("low", cpu=2, labels={"kueue.x-k8s.io/priority-class": "low"})
    toy.pod("high", cpu=2, namespace="secret", labels={"kueue.x-k8s.io/priority-class": "high"})
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        life = finding.life(model, "ns", "low")
        assert life is not None
        for quota in (True, False):
            seen = PageView(at=None, query={"namespace": "ns"}, now=toy.now, quota=quota)
            for page in (preemptions(Asked(model), seen), group(Asked(model), seen, "ns", "low")):
                shown = f"{page.body}{msgspec.json.encode(page.data).decode()}"
                assert ("secret" in shown) == quota
                assert ("another namespace" in shown) != quota or page.title != "Preemptions"
        history = msgspec.json.encode(finding.history(model, life)).decode()
    assert "secret" not in history
    assert "preempted by a group of another namespace" in history


def test_who_was_preempted_learns_for_whom_where_that_may_be_seen(url: str) -> None:
    """`why` named no preemptor of another namespace, which history named to the same user."""
    toy = Toy(cpu=2)
    theirs = LocalQueueView(
        uid="lq2", namespace="urgent", name="lq", resource_version=toy.bump(), cluster_queue="cq"
    )
    space = NamespaceView(uid="n2", name="urgent", resource_version=toy.bump())
    toy.do(ObjectApplied(object=space), ObjectApplied(object=theirs))
    low = {PRIORITY_CLASS: "low"}
    for name in ("a1", "a2"):
        toy.pod(name, "a", 2, labels=low)
    toy.run("a1", "a2")
    toy.pod("high", cpu=2, namespace="urgent", labels={PRIORITY_CLASS: "high"})
    toy.wait(60)
    Writer(url).feed(toy.messages)
    found = asked(url, "a")
    assert found.group.wait_reason == "WaitingForReplacementPods"
    assert "preempted: for urgent/high (priority 1000), 2026-01-01 " in said(found)
    assert "urgent/high" not in said(found, own_only=True)
    toy.end("high")
    late = toy.now + timedelta(hours=1)
    with ReadModel(url, "test") as model:
        then = explain(model, model.groups("ns", "a")[0], late, past=True)
    assert then.preempted_for is not None and then.preempted_for.name == "high"


def test_the_plugin_says_what_the_shell_says(told: str) -> None:
    with ReadModel(told, "test") as model:
        for name in ("a", "b", "c", "d"):
            life = finding.life(model, "ns", name)
            assert life is not None
            group, reasons = (
                msgspec.json.decode(msgspec.json.encode(one))
                for one in (finding.podgroup(life), finding.explained(model, life))
            )
            text = answers.why(group, reasons, None)
            shown = lines(explain(model, life, model.clock()), model.clock(), own_only=True)
            for one in shown:
                assert f"{one.label} " in text and untimed(one.text) in untimed(text)


def untimed(text: str) -> str:
    """A text without spans of time, which go on between two looks."""
    return re.sub(r"\d+ (s|m|h|d)\b", "", text)


def test_why_says_until_when_a_preempted_pod_holds_what_others_wait_for(url: str) -> None:
    toy = Toy(cpu=2)
    toy.slow = True
    toy.pod("low", cpu=2, labels={"kueue.x-k8s.io/priority-class": "low"}, termination_grace_s=7200)
    toy.run("low")
    toy.pod("high", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    Writer(url).feed(toy.messages)
    soon = toy.now + timedelta(minutes=1)
    with ReadModel(url, "test") as model:
        high, low = (model.groups("ns", name)[0] for name in ("high", "low"))
        waits, gives = (
            "\n".join(f"{one.label}: {one.text}" for one in lines(explain(model, each, soon), soon))
            for each in (high, low)
        )
        (seen,) = (one for one in examine(model, soon) if one.what == "preempted")
    assert "makes room: ns/low: 1 pod must end by 2026-01-01 00:10:00 UTC (in " in waits
    assert "its quota is taken until then" in waits
    assert "stops: pod low has until 2026-01-01 00:10:00 UTC (in " in gives
    assert seen.verdict == "ok" and "ns/low: 1 pod must end by" in seen.detail
    late = toy.now + timedelta(minutes=11)
    with ReadModel(url, "test") as model:
        (seen,) = (one for one in examine(model, late) if one.what == "preempted")
    assert seen.verdict == "warn" and "should have ended" in seen.detail


def test_amounts_are_those_of_the_moment_and_of_a_past_one(url: str) -> None:
    """What was free when the wait began stood there until it was tried again."""
    toy = Toy(cpu=10, policy=Policy(status_interval_s=1))
    toy.pod("held", cpu=4)
    toy.run("held")
    toy.pod("big", cpu=9)
    toy.wait(2)  # what is told of queues at most once a second is told
    began = toy.now
    toy.wait(300)
    toy.pod("small", cpu=5)  # it fits beside
    toy.wait(300)
    Writer(url).feed(toy.messages)
    text = said(asked(url, "big"))
    assert "needs 9 cpu; 1 is free in ClusterQueue cq" in text
    assert "it takes: 8 cpu of flavor f must be freed in ClusterQueue cq; or others in" in text
    assert "more needed" not in text  # as Kueue said when it was tried
    with ReadModel(url, "test") as model:
        then = began + timedelta(minutes=1)
        found = explain(model, model.groups("ns", "big")[0], then, past=True)
        words = "\n".join(one.text for one in lines(found, then))
    assert "needs 9 cpu; 6 are free in" in words and "3 cpu of flavor f must be freed" in words


def test_what_has_to_be_freed_names_the_cohort_and_who_borrows() -> None:
    short = ShortRow(
        *("etl-cq", "Cohort", "ml", "f", "cpu", 60_000, 30_000, "cohort", 0, "", False, NOW),
        room=18_000,
    )
    pool = PoolRow("ClusterQueue", "vision-cq", "f", "cpu", 0, 0, 34_000, 34_000, 0, 0)
    shared = Shared([short], [pool], [])
    expected = "42 cpu of flavor f must be freed in Cohort ml; vision-cq borrows 34"
    assert freed(shared) == expected
    assert freed(shared, own_only=True) == "42 cpu of flavor f must be freed"


def test_pods_that_are_missing_are_counted_everywhere(url: str) -> None:
    toy = Toy()
    for n in range(3):
        toy.pod(f"g{n}", "g", 4)
    toy.delete("g1")
    Writer(url).feed(toy.messages)
    expected = "2 of 4 pods exist; create 2 more"
    text = said(asked(url, "g"))
    assert expected in text and "it takes: 2 more pods with label" in text
    with ReadModel(url, "test") as model:
        (row,) = model.pending()
        listed = str(groups(Asked(model), PageView(at=None, query={}, now=NOW)).body)
    assert row.message == expected and expected in listed


def test_who_waits_for_other_pods_than_so_many_is_told_which(url: str) -> None:
    """A set of a hundred of which the launcher alone is created beforehand; an earlier run."""
    launcher = DeclaredSet(name="launchers", count=2)
    toy = Toy()
    toy.slow = True
    toy.pod("l0", "sets", None, sets=(launcher, workers(100)), labels={ROLE: "launchers"})
    for name in ("r0", "r1"):
        toy.pod(name, "again", 2, gated=False)
        toy.run(name)
        toy.delete(name)
    Writer(url).feed(toy.messages)
    waits = {
        "sets": ("waits for those that are created beforehand", "the pods that are named above"),
        "again": ("pods of an earlier run", "that the pods of the earlier run have ended"),
    }
    with ReadModel(url, "test") as model:
        listed = str(groups(Asked(model), PageView(at=None, query={}, now=NOW)).body)
        rows = {row.name: row.message for row in model.pending()}
    for name, (words, takes) in waits.items():
        text = said(asked(url, name))
        assert words in text and f"it takes: {takes}" in text
        assert words in rows[name] and words in listed
    assert "pods exist" not in listed


@pytest.mark.parametrize("every_s", [1, 0], ids=["ledger", "no ledger"])
def test_a_list_of_who_waits_has_amounts_of_the_moment(url: str, every_s: int) -> None:
    """Each wait began with other amounts free: side by side they are those of now."""
    toy = Toy(cpu=4, policy=Policy(status_interval_s=every_s))
    toy.wait(2)
    toy.pod("one", cpu=1)
    toy.pod("wide", cpu=4)
    toy.pod("two", cpu=2)
    toy.pod("wider", cpu=4)
    toy.wait(2)
    toy.run("one")
    toy.end("one")
    toy.wait(2)
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        said = {row.name: first(row.message) for row in model.pending("ns")}
        assert said == dict.fromkeys(
            ("wide", "wider"), "needs 4 cpu; 2 are free in ClusterQueue cq (flavor f)"
        )
        seen = PageView(at=None, query={}, now=model.clock())
        shown = {row.name: first(row.message) for row in who_waits(Asked(model), seen, "cq", 9, 0)}
        assert shown == said


def test_a_group_that_waits_until_others_have_run_says_until_when(url: str) -> None:
    """Tried on a real control plane: amounts of the moment took the place of the moment."""
    toy = Toy(cpu=2, policy=Policy(least_run_s=600))
    toy.pod("young", cpu=2, labels={PRIORITY_CLASS: "low"})
    toy.run("young")
    toy.pod("urgent", cpu=2, labels={PRIORITY_CLASS: "high"})
    toy.wait(5)
    Writer(url).feed(toy.messages)
    until = "when ns/young has run for 10 min"
    text = said(asked(url, "urgent"))
    assert until in text and "needs 2 cpu; 0 are free" in text
    with ReadModel(url, "test") as model:
        assert until in {row.name: row.message for row in model.pending("ns")}["urgent"]


def test_a_group_that_waits_for_a_place_until_others_have_run_says_so_once(url: str) -> None:
    """There is quota for it, so it is short of none."""
    toy = Toy(cpu=10, policy=Policy(least_run_s=600))
    toy.do(ObjectApplied(object=topology(toy)))
    name_topology(toy)
    toy.do(*relist(toy, node(toy, "n1")))
    toy.pod("young", cpu=4, labels={PRIORITY_CLASS: "low"})
    toy.run("young")
    toy.pod("urgent", cpu=4, labels={PRIORITY_CLASS: "high"})
    toy.wait(5)
    Writer(url).feed(toy.messages)
    assert said(asked(url, "urgent")).count("when ns/young has run for 10 min") == 1
