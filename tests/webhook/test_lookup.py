"""Lookups: which paths are asked, what is kept and for how long, what failures mean."""

import asyncio
from typing import Any

import pytest

from ingest.webhook.lookup import ApiLookup
from ingest.webhook.owners import LookupFailed
from ingest.webhook.pod import OwnerRef
from ingest.webhook.policy import OwnerKind

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

JOB = OwnerKind("batch", "Job", "jobs")
POD = OwnerKind("", "Pod", "pods")
QUEUE = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/localqueues/default"


def ref(name: str = "j", uid: str = "u", api_version: str = "batch/v1") -> OwnerRef:
    return OwnerRef(kind="Job", name=name, uid=uid, api_version=api_version, controller=True)


class Api:
    """A pretended API server: answers by path, and the clock beside it."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, Any]]] = {}
        self.asked: list[str] = []
        self.now_s = 100.0
        self.failure: Exception | None = None

    async def get(self, path: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return self.answers.get(path, (404, {"message": "not found"}))

    def lookup(self, **options: Any) -> ApiLookup:
        return ApiLookup(self.get, clock=lambda: self.now_s, **options)


async def test_paths() -> None:
    api = Api()
    lookup = api.lookup()
    assert await lookup.has_local_queue("ns", "default") is False
    assert await lookup.has_priority_class("default") is False
    api.answers["/api/v1/namespaces/ns"] = (200, {"metadata": {"labels": {"a": "b"}}})
    assert await lookup.namespace_labels("ns") == {"a": "b"}
    assert await lookup.owner("ns", ref(), JOB) is None
    assert await lookup.owner("ns", ref(api_version="v1"), POD) is None
    assert list(dict.fromkeys(api.asked)) == [
        QUEUE,
        "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses/default",
        "/api/v1/namespaces/ns",
        "/apis/batch/v1/namespaces/ns/jobs/j",
        "/api/v1/namespaces/ns/pods/j",
    ]


async def test_names_cannot_leave_their_place_in_the_path() -> None:
    api = Api()
    lookup = api.lookup()
    for name in ("", ".", ".."):
        assert await lookup.owner("ns", ref(name=name), JOB) is None
    assert api.asked == []
    await lookup.owner("ns", ref(name="../../secrets/x?y#z"), JOB)
    await lookup.owner("ns", ref(api_version="batch/../v1"), JOB)
    assert set(api.asked) == {
        "/apis/batch/v1/namespaces/ns/jobs/..%2F..%2Fsecrets%2Fx%3Fy%23z",
        "/apis/batch%2F../v1/namespaces/ns/jobs/j",
    }


async def test_answers_are_kept_for_a_while_and_shared() -> None:
    api = Api()
    lookup = api.lookup(ttl_s=5.0)
    asked = await asyncio.gather(*(lookup.has_local_queue("ns", "default") for _ in range(20)))
    assert set(asked) == {False}
    assert api.asked == [QUEUE]
    api.answers[QUEUE] = (200, {"metadata": {}})
    api.now_s += 4.9
    assert not await lookup.has_local_queue("ns", "default")
    api.now_s += 0.2
    assert await lookup.has_local_queue("ns", "default")
    assert len(api.asked) == 2


async def test_a_stale_answer_beats_none_but_not_for_ever() -> None:
    api = Api()
    lookup = api.lookup(ttl_s=5.0, stale_s=60.0)
    api.answers[QUEUE] = (200, {"metadata": {}})
    assert await lookup.has_local_queue("ns", "default")
    api.failure = ConnectionResetError("gone")
    api.now_s += 30
    assert await lookup.has_local_queue("ns", "default")
    assert await lookup.has_local_queue("ns", "default")
    api.now_s += 60
    with pytest.raises(LookupFailed, match=r"did not answer \(ConnectionResetError: gone\)"):
        await lookup.has_local_queue("ns", "default")
    api.failure = None
    assert await lookup.has_local_queue("ns", "default")


async def test_owner_of_another_uid_is_asked_again() -> None:
    api = Api()
    lookup = api.lookup()
    path = "/apis/batch/v1/namespaces/ns/jobs/j"
    up = {"apiVersion": "x.io/v1", "kind": "T", "name": "t", "uid": "t", "controller": True}
    api.answers[path] = (
        200,
        {"metadata": {"uid": "u", "labels": {"a": "b"}, "ownerReferences": [up]}},
    )
    owner = await lookup.owner("ns", ref(), JOB)
    assert owner is not None
    assert (owner.uid, owner.labels) == ("u", {"a": "b"})
    assert owner.controller is not None
    assert owner.controller.group == "x.io"
    await lookup.owner("ns", ref(), JOB)
    assert len(api.asked) == 1
    # The Job was deleted and made again under its name.
    api.answers[path] = (200, {"metadata": {"uid": "u2"}})
    owner = await lookup.owner("ns", ref(uid="u2"), JOB)
    assert owner is not None
    assert owner.uid == "u2"
    # Owners are never answered from a stale entry.
    api.failure = OSError("down")
    api.now_s += 10
    with pytest.raises(LookupFailed):
        await lookup.owner("ns", ref(uid="u2"), JOB)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((403, {"message": "not allowed"}), "answered 403 not allowed"),
        ((500, {}), "answered 500"),
        ((200, {"metadata": {"labels": 1}}), "not an object"),
    ],
)
async def test_failures(answer: tuple[int, dict[str, Any]], sentence: str) -> None:
    api = Api()
    api.answers["/api/v1/namespaces/ns"] = answer
    with pytest.raises(LookupFailed, match=sentence):
        await api.lookup().namespace_labels("ns")
    with pytest.raises(LookupFailed, match="'other' does not exist"):
        await api.lookup().namespace_labels("other")


async def test_the_cache_is_bounded_and_survives_an_impatient_caller() -> None:
    api = Api()
    lookup = api.lookup(max_entries=3)
    for i in range(10):
        await lookup.has_local_queue(f"ns{i}", "default")
    await lookup.has_local_queue("ns9", "default")
    assert len(api.asked) == 10
    await lookup.has_local_queue("ns0", "default")
    assert len(api.asked) == 11
    patient = asyncio.create_task(lookup.has_local_queue("new", "default"))
    impatient = asyncio.create_task(lookup.has_local_queue("new", "default"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient is False
    assert len(api.asked) == 12
