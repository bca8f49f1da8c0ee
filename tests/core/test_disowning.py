"""Pods that leave our hands without going away, and pods that cannot be read."""

import msgspec
import pytest

from podgroup.fold.refusals import MAX_REFUSED
from podgroup.log.events import (
    DeltaRefused,
    ObjectApplied,
    OperatorActed,
    PodDeleted,
    RelistCompleted,
    RelistStarted,
)
from podgroup.model.commands import FinalizePod, ReportPod
from podgroup.model.names import ADMITTED_CONDITION, MANAGED_LABEL, POD_FINALIZER
from podgroup.model.objects import Condition
from tests.support.toy import Toy, taken


def said(toy: Toy, reason: str) -> list[tuple[str, str]]:
    return [(on, message) for on, what, message in toy.said if what == reason]


@pytest.mark.parity("C-07")
def test_a_gated_pod_that_loses_the_label_loses_the_finalizer_and_is_told() -> None:
    toy = Toy(cpu=0)
    foo = toy.pod("foo")
    toy.unlabel("foo")
    assert toy.gated("foo") and not toy.held("foo")
    ((on, message),) = said(toy, "Unmanaged")
    assert on == "foo" and "put the label back" in message
    reports = [d.command for d in toy.decisions if isinstance(d.command, ReportPod)]
    assert [(r.target.uid, r.status, r.reason) for r in reports] == [
        (foo.uid, "False", "Unmanaged")
    ]
    notes = [(n.kind, n.reason, n.message) for n in toy.world.journal.notes if n.pod == foo.uid]
    assert notes[-1] == ("PodLeft", "Unmanaged", f"label {MANAGED_LABEL} was removed")
    assert toy.world.gone_pods[foo.uid].gone_at is not None, "its row says that it left"


def test_a_pod_that_gets_the_label_back_is_queued_again() -> None:
    toy = Toy(cpu=0)
    foo = toy.pod("foo")
    toy.unlabel("foo")
    assert not toy.workloads, "its Workload went with it"
    told = Condition(type=ADMITTED_CONDITION, status="False", reason="Unmanaged", message="m")
    toy.do(ObjectApplied(object=toy.cluster_queue(10)))
    toy.change(foo.uid, labels=foo.labels, conditions=(told,))
    assert not toy.gated("foo"), "there is room now"
    last = [d.command for d in toy.decisions if isinstance(d.command, ReportPod)][-1]
    assert (last.status, last.reason) == ("True", "Admitted"), "and it is not told otherwise"


def test_a_pod_that_really_went_is_not_let_go() -> None:
    """The last state of a deleted object has the finalizer whose removal deleted it."""
    toy = Toy(cpu=0)
    foo = toy.pod("foo")
    going = msgspec.structs.replace(foo, deleted_at=toy.now, resource_version=toy.bump())
    del toy.pods[foo.uid]
    toy.do(PodDeleted(pod=going))
    assert POD_FINALIZER in going.finalizers
    assert not [d for d in toy.decisions if isinstance(d.command, FinalizePod)]
    assert [n.kind for n in toy.world.journal.notes if n.pod == foo.uid][-1] == "PodGone"


def test_a_pod_that_lost_the_label_unseen_is_let_go_too() -> None:
    toy = Toy(cpu=0)
    foo = toy.pod("foo")
    toy.do(
        RelistStarted(kind="Pod", relist="again"),
        RelistCompleted(kind="Pod", relist="again", resource_version=toy.bump()),
    )
    (finalize,) = [d for d in toy.decisions if isinstance(d.command, FinalizePod)]
    assert (finalize.rule, finalize.command.target.uid) == ("disown", foo.uid)
    assert not toy.held("foo")


def test_of_a_parked_group_pods_are_let_go_all_the_same() -> None:
    toy = Toy(cpu=0)
    toy.pod("foo")
    toy.group("foo").parked = "1/1 (test): by test"
    toy.unlabel("foo")
    assert not toy.held("foo")


def refused(toy: Toy, uid: str = "bad", message: str = "is 300000 bytes long") -> DeltaRefused:
    return DeltaRefused(
        kind="Pod",
        namespace="ns",
        name=f"pod-{uid}",
        uid=uid,
        resource_version=toy.bump(),
        field="metadata.annotations[x]",
        message=message,
    )


def told(toy: Toy) -> list[tuple[str, str]]:
    return [
        (d.command.target.uid, d.message)
        for d in toy.decisions
        if isinstance(d.command, ReportPod) and d.reason == "PodRefused"
    ]


def test_a_pod_that_cannot_be_read_is_told_once_for_each_thing() -> None:
    toy = Toy()
    toy.do(refused(toy))
    ((uid, message),) = told(toy)
    assert uid == "bad" and "metadata.annotations[x]: is 300000 bytes long" in message
    assert "ignores it" in message and not toy.world.meta.unreported
    toy.do(refused(toy))
    assert len(told(toy)) == 1, "a status write of the kubelet is no news"
    toy.do(refused(toy, message="is 400000 bytes long"))
    assert len(told(toy)) == 2


def test_what_is_left_out_of_a_pod_is_said_once_and_the_rest_is_read() -> None:
    toy = Toy(cpu=4)
    toy.pod("p0", cpu=1)
    toy.run("p0")
    uid = toy.named("p0").uid
    toy.change(uid, unread=("metadata.annotations[x] is 5000 bytes long",))
    ((on, message),) = told(toy)
    assert on == uid and "goes on without what is too long" in message and "5000" in message
    toy.change(uid, requests={"cpu": 3000}, unread=toy.named("p0").unread)
    assert taken(toy.world, "cq")["f", "cpu"] == 3000, "a resize is seen"
    assert len(told(toy)) == 1
    toy.change(uid, unread=())
    assert not toy.world.meta.refused
    toy.change(uid, unread=("again",))
    toy.end("p0")
    assert not taken(toy.world, "cq") and not toy.held("p0")


def test_a_pod_that_cannot_be_read_is_set_aside_once_for_each_thing() -> None:
    toy = Toy()

    def aside() -> list[str]:
        return [f"{row.seq}/{row.ord}" for row in toy.world.journal.parked]

    toy.do(refused(toy), refused(toy), refused(toy, "other"))
    toy.do(refused(toy))
    assert len(aside()) == 2, "one for each pod, not for each change"
    toy.do(refused(toy, message="is 400000 bytes long"))
    assert len(aside()) == 3
    notes = [note for note in toy.world.journal.notes if note.kind == "DeltaRefused"]
    assert len(notes) == 5, "history tells every one"
    toy.do(OperatorActed(action="release", target=aside()[0]))
    toy.do(refused(toy, message="is 400000 bytes long"))
    assert len(aside()) == 3, "another one was released"
    toy.do(OperatorActed(action="release", target=aside()[2]))
    toy.do(refused(toy, message="is 400000 bytes long"), refused(toy, "other"))
    assert len(aside()) == 4, "it was released and is as it was"


def test_a_known_pod_that_cannot_be_read_any_more_is_told_and_told_when_it_can() -> None:
    toy = Toy(cpu=0)
    foo = toy.pod("foo")
    toy.do(refused(toy, foo.uid))
    assert "goes by what it last read" in told(toy)[0][1]
    toy.change(foo.uid)
    assert not toy.world.meta.refused
    toy.wait(6)
    last = [d for d in toy.decisions if isinstance(d.command, ReportPod)][-1]
    assert (last.command.target.uid, last.reason) == (foo.uid, "ExceedsMaxQuota")


def test_very_many_pods_that_cannot_be_read_are_told_bit_by_bit_and_forgotten() -> None:
    toy = Toy()
    toy.act = False
    toy.do(*(refused(toy, f"u{i}") for i in range(MAX_REFUSED + 20)))
    assert len(told(toy)) == 50 and toy.world.meta.unreported == MAX_REFUSED - 50
    toy.do()
    assert len(told(toy)) == 100 and not toy.world.meta.unreported
    assert len(toy.world.meta.refused) == MAX_REFUSED
    toy.do(PodDeleted(pod=msgspec.structs.replace(toy.pod("x"), uid="u50")))
    assert len(toy.world.meta.refused) == MAX_REFUSED - 1


def test_nothing_is_said_to_what_has_no_uid() -> None:
    toy = Toy()
    toy.do(refused(toy, ""))
    assert not told(toy) and not toy.world.meta.refused
