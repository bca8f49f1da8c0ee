"""What people reported of other controllers, and came out right here: it stays so.

Each test names its thread. What came out wrong is tested where it was mended.
"""

from datetime import timedelta

from msgspec import structs

from podgroup.log.events import ObjectApplied
from podgroup.model.names import POD_FINALIZER, SERVING, workload_name
from tests.support.toy import Toy, taken


def test_a_dead_pod_that_another_finalizer_keeps_gets_no_new_workload() -> None:
    """kubernetes-sigs/kueue #15148: such a one stood at the head of the queue for ever."""
    toy = Toy(cpu=1)
    pod = toy.pod("a", finalizers=(POD_FINALIZER, "example.com/hold"))
    toy.run("a")
    toy.delete("a")
    toy.delete_workload(workload_name("a", pod.uid))
    toy.pod("b")
    assert not toy.gated("b") and toy.named("a").finalizers == ("example.com/hold",)
    toy.wait(3600)
    toy.change(pod.uid, annotations={"seen": "again"})
    assert workload_name("a", pod.uid) not in toy.workloads
    assert sum(taken(toy.world, "cq").values()) == 1000


def test_no_healthy_pod_goes_where_most_of_a_serving_group_terminates() -> None:
    """ai-dynamo/grove #758, kubernetes-sigs/kueue #1623: it was counted as excess."""
    toy = Toy(cpu=6)
    toy.slow = True
    for number in range(6):
        toy.pod(f"p{number}", "g", 6, annotations={SERVING: "true"})
    toy.run(*(f"p{number}" for number in range(6)))
    for number in range(1, 6):
        view = toy.named(f"p{number}")
        toy.change(view.uid, deleted_at=toy.now + timedelta(seconds=60), grace_s=60)
        toy.pod(f"n{number}", "g", 6, annotations={SERVING: "true"})
    assert "excess" not in toy.rules() and toy.named("p0").deleted_at is None
    for number in range(1, 6):
        toy.end(f"p{number}", phase="Failed")
    assert toy.there() == {"p0", *(f"n{number}" for number in range(1, 6))}
    assert not any(toy.gated(name) for name in toy.there())


def test_a_cluster_queue_made_again_under_its_name_knows_what_runs() -> None:
    """kubernetes-sigs/kueue #14735: readiness of the new object, usage of the old one."""
    toy = Toy(cpu=2)
    toy.pod("a")
    toy.run("a")
    known = toy.world.cluster_queues["cq"]
    toy.do(ObjectApplied(object=structs.replace(known, uid="other", resource_version=toy.bump())))
    toy.pod("b", cpu=2)
    assert toy.gated("b") and sum(taken(toy.world, "cq").values()) == 1000
    toy.end("a")
    assert not toy.gated("b")
