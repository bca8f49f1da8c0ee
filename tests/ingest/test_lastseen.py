"""StatefulSets: what is read of them, and which of their changes is an event."""

import msgspec

from ingest.kinds import watched_kinds
from ingest.lastseen import LastSeen
from ingest.translate.items import Delta
from podgroup.log.events import Event, ObjectApplied, ObjectDeleted, RelistStarted
from podgroup.model.objects import StatefulSetView

SETS = watched_kinds("", kinds=("StatefulSet",))[0].translator


def seen(kind: str, version: int, **spec: object) -> Event:
    meta = {"uid": "u", "namespace": "ns", "name": "web", "resourceVersion": str(version)}
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    body = {"metadata": meta, "spec": spec, "status": {"readyReplicas": version}}
    item = SETS.item(msgspec.json.encode({"type": kind, "object": body}))
    assert isinstance(item, Delta)
    return item.event


def test_a_set_says_how_many_pods_it_wants() -> None:
    first, plain = seen("ADDED", 1, replicas=3), seen("ADDED", 1)
    assert isinstance(first, ObjectApplied) and isinstance(plain, ObjectApplied)
    assert first.object == StatefulSetView(
        uid="u", namespace="ns", name="web", resource_version="1", replicas=3
    )
    assert plain.object == msgspec.structs.replace(first.object, replicas=1)


def test_a_change_of_its_status_is_no_event() -> None:
    known = LastSeen()
    one, ready, more = (
        seen("ADDED", 1, replicas=3),
        seen("MODIFIED", 2, replicas=3),
        seen("MODIFIED", 3, replicas=4),
    )
    assert known.news((one, ready, more)) == (one, more)
    gone = seen("DELETED", 4, replicas=4)
    assert isinstance(gone, ObjectDeleted) and known.news((gone,)) == (gone,)
    assert known.news((one,)) == (one,), "it was made anew"


def test_in_a_list_each_is_news_since_what_a_list_lacks_is_gone() -> None:
    known = LastSeen()
    one = seen("ADDED", 1, replicas=3)
    assert isinstance(one, ObjectApplied)
    listed = msgspec.structs.replace(one, relist="r")
    assert known.news((one,)) == (one,)
    assert known.news((listed,)) == (listed,)


def test_what_a_list_lacks_is_forgotten() -> None:
    known = LastSeen()
    one = seen("ADDED", 1, replicas=3)
    assert isinstance(one, ObjectApplied)
    begins = RelistStarted(kind="StatefulSet", relist="r", reason="a gap")
    assert known.news((one, begins)) == (one, begins)
    assert known.news((one,)) == (one,)
