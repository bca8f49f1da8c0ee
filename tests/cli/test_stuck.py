"""What doctor says of writes that are repeated without effect, and of groups that stand still."""

from datetime import timedelta
from pathlib import Path

import pytest

from gatelog.examine import stuck
from gatelog.examine.findings import Finding
from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import ReadModel
from podgroup.model.names import FAST_ADMISSION, MANAGED_LABEL
from podgroup.model.policy import Policy
from projector.measures.gauges import pending_groups
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path}/read-model.sqlite3"
    if request.param == "postgresql":
        found = str(request.getfixturevalue("postgres_database"))
    migrated(found)
    return found


def examined(url: str, toy: Toy, writer: Writer, later_s: int = 0) -> dict[str, Finding]:
    writer.feed([m for m in toy.messages if m[0] > writer.world.meta.position])
    with ReadModel(url, "test") as model:
        found = stuck.examine(model, toy.now + timedelta(seconds=later_s))
    return {finding.what: finding for finding in found}


def test_a_write_that_is_refused_again_and_again(url: str) -> None:
    toy, writer = Toy(), Writer(url)
    toy.rejecting = {"UngatePod"}
    pod = toy.pod("p0")
    toy.pod("p1")
    begun = toy.now
    toy.wait(31)
    assert examined(url, toy, writer)["writes"].verdict == "ok", "twice is no habit"
    for pause in (61, 121):
        toy.wait(pause)
    found = examined(url, toy, writer)["writes"]
    assert found.verdict == "warn"
    assert (
        f"ns/p0 (Admitted): UngatePod of Pod ns/p0 was rejected (422) 4 times since "
        f"{begun:%Y-%m-%d %H:%M}" in found.detail
    )
    assert found.detail.count("UngatePod of") == 2 and ": no" in found.detail
    with ReadModel(url, "test") as model:
        (mine,) = model.repeated(toy.now, next(g for g in toy.world.groups if pod.uid in g))
    assert (mine.name, mine.times) == ("p0", 4)
    assert "gatelog history ns/p" in found.remedy and "within a minute" in found.remedy
    toy.rejecting.clear()
    toy.change(pod.uid, annotations={"mended": "1"})
    assert not toy.gated("p0")
    assert "ns/p0" not in examined(url, toy, writer)["writes"].detail, "it was taken in the end"
    assert examined(url, toy, writer, 3600)["writes"].verdict == "ok", "nobody tries any more"


def test_what_the_api_server_refuses_is_a_failure_at_once_and_why_says_it_first(url: str) -> None:
    """Another mutation makes each patch of ours a 422 (gatekeeper#4121): also while it deletes."""
    toy, writer = Toy(), Writer(url)
    assert examined(url, toy, writer)["refused"].verdict == "ok"
    toy.rejecting = {"UngatePod", "FinalizePod", "DeletePod", "StopPod"}
    toy.pod("p0")
    found = examined(url, toy, writer)["refused"]
    assert found.verdict == "fail"
    assert (
        "ns/p0 (Admitted): the API server refuses a write of pod p0: UngatePod: no" in found.detail
    )
    assert "mutatingwebhookconfigurations" in found.remedy
    toy.delete("p0")
    found = examined(url, toy, writer)["refused"]
    assert found.verdict == "fail" and "FinalizePod: no" in found.detail
    with ReadModel(url, "test") as model:
        (group,) = model.groups("ns", "p0")
        said = [(line.label, line.text) for line in lines(explain(model, group, toy.now), toy.now)]
    assert said[0][0] == "refused" and "FinalizePod: no" in said[0][1]
    assert said[1][0] == "it takes" and "mutatingadmissionpolicies" in said[1][1]
    toy.rejecting.clear()
    toy.wait(601)
    assert examined(url, toy, writer)["refused"].verdict == "ok"


def test_a_mirror_that_is_refused_is_a_warning(url: str) -> None:
    toy, writer = Toy(), Writer(url)
    toy.refusing = "no room"
    toy.pod("p0")
    found = examined(url, toy, writer)["refused"]
    assert found.verdict == "warn" and "no room" in found.detail


def test_pods_that_take_too_much_memory(url: str) -> None:
    toy, writer = Toy(policy=Policy(namespace_memory_mib=1)), Writer(url)
    writer.world.policy = toy.world.policy
    assert examined(url, toy, writer)["large pods"].verdict == "ok"
    toy.pod("huge", too_large="spec.affinity (7000 KiB) would take too much memory")
    for number in range(4):
        terms = tuple(f"{number}-{value:040}" for value in range(4_000))
        toy.pod(f"large{number}", labels={f"a{n}": text for n, text in enumerate(terms)})
    found = examined(url, toy, writer)["large pods"]
    assert found.verdict == "warn" and "ns/huge: pod huge: spec.affinity (7000 KiB)" in found.detail
    assert "the 1 MiB of memory that gatelog gives a namespace" in found.detail
    assert "large pods of namespace ns end" in found.remedy and "pods with less" in found.remedy
    waits = {
        labels: n for labels, n in pending_groups(toy.world).items() if "TooLarge" in labels[2]
    }
    assert {reason for _, _, reason in waits} == {"PodTooLarge", "NamespaceTooLarge"}


def test_a_fight_over_the_label(url: str) -> None:
    toy, writer = Toy(), Writer(url)
    toy.pod("p0")
    toy.run("p0")
    for _ in range(4):
        while MANAGED_LABEL not in toy.named("p0").labels:
            toy.wait(1)
        toy.unlabel("p0")
    found = examined(url, toy, writer)["writes"]
    assert found.verdict == "warn"
    assert "was taken off Pod ns/p0 and put back" in found.detail and "audit" in found.remedy


def test_a_group_that_is_over_and_not_let_go_of(url: str) -> None:
    toy, writer = Toy(), Writer(url)
    toy.pod("p0", "g", 1)
    toy.run("p0")
    toy.rejecting = {"FinalizePod"}
    toy.end("p0")
    ended = toy.now
    assert examined(url, toy, writer)["groups"].verdict == "ok"
    toy.wait(601)
    found = examined(url, toy, writer)["groups"]
    assert found.verdict == "warn"
    assert found.detail.startswith(f"ns/g is Finishing since {ended:%Y-%m-%d %H:%M}")
    assert "gatelog history ns/g" in found.remedy


def test_why_names_pods_without_a_place_in_every_state(url: str) -> None:
    toy, writer = Toy(policy=Policy(pods_ready_timeout_s=60, requeuing_limit=1)), Writer(url)
    fast = {FAST_ADMISSION: "true"}
    toy.pod("a", "g", 2, annotations=fast)
    toy.pod("odd", "g", 2, cpu=3, annotations=fast)

    def said() -> list[tuple[str, str]]:
        examined(url, toy, writer)
        with ReadModel(url, "test") as model:
            (group,) = model.groups("ns", "g")
            assert not model.held_up(toy.now), "nothing of it is to be ungated"
            return [
                (line.label, line.text) for line in lines(explain(model, group, toy.now), toy.now)
            ]

    toy.wait(6)
    place = (
        "at its gate",
        "the Workload g has no place for pod odd of role r3; the group has pods of role r1",
    )
    found = said()
    assert place in found and found[found.index(place) + 1][1].startswith(
        "a pod of one of its roles"
    )
    toy.run("a")
    for _ in range(4):
        toy.wait(30)
        assert place in said()
    assert toy.group("g").explained.state == "Evicted"
