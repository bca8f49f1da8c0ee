"""Which ClusterQueue a group ended in, whatever becomes of its LocalQueue afterwards."""

import pytest

from podgroup.log.events import ObjectDeleted
from podgroup.model.names import QUEUE_NAME
from podgroup.state.facts import cluster_queue_name
from tests.support.toy import Toy


@pytest.mark.parametrize("gone", [True, False])
def test_the_queue_is_deleted_when_the_group_is_over(gone: bool) -> None:
    """Rows are written by batches: a replay's are larger, so the queue may be away by then."""
    toy = Toy()
    toy.pod("p", "g", 1)
    toy.run("p")
    (group,) = toy.world.groups.values()
    toy.end("p")
    if gone:
        toy.delete("p")
    assert group.ending.finish is not None and (group.ending.gone_at is not None) is gone
    assert cluster_queue_name(toy.world, group) == "cq"
    version = toy.bump()
    toy.do(
        ObjectDeleted(
            kind="LocalQueue", namespace="ns", name="lq", uid="lq", resource_version=version
        )
    )
    assert cluster_queue_name(toy.world, group) == "cq"


def test_a_group_that_never_had_a_queue_has_none_at_its_end() -> None:
    toy = Toy()
    toy.pod("p", "g", 1, labels={QUEUE_NAME: "absent"})
    (group,) = toy.world.groups.values()
    toy.delete("p")
    assert group.ending.gone_at is not None
    assert cluster_queue_name(toy.world, group) == ""
