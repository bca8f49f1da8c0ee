"""What the projector says when it waits for a list that nobody sends."""

from podgroup.fold import synced, unlisted
from podgroup.log import events as e
from projector.live.announcing import unwatched
from tests.support.toy import Toy


def test_kinds_that_an_older_ingester_does_not_watch_are_named() -> None:
    toy = Toy()
    assert synced(toy.world) and not unlisted(toy.world)
    assert unwatched(toy.world) == {}
    toy.world.meta.synced -= {"Cohort", "AdmissionCheck"}
    assert not synced(toy.world)
    said = unwatched(toy.world)
    assert said["missing"] == ["AdmissionCheck", "Cohort"]
    assert "an ingester older than this projector" in str(said["problem"])
    toy.send(e.RelistStarted(kind="Cohort", relist="later"))
    toy.send(e.RelistCompleted(kind="Cohort", relist="later", resource_version="9"))
    assert unwatched(toy.world)["missing"] == ["AdmissionCheck"]
