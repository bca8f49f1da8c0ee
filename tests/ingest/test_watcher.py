"""The watcher on a scripted API server: what it asks, what it hands on, in which order.

Waits are made short through the options; how they grow is tested with `Backoff`."""

import asyncio
from typing import Any, cast

import pytest

from ingest.calls import WatchOptions
from ingest.kinds import watched_kinds
from ingest.states import Absent, Start, Watching
from ingest.watcher import Watcher
from podgroup.log.events import (
    Event,
    PodApplied,
    PodDeleted,
    RelistCompleted,
    RelistStarted,
)
from runtime.kube_errors import KubeUnauthorized, KubeUnavailable
from tests.ingest.scripted import (
    Entry,
    Lines,
    Listed,
    Refused,
    ScriptedApi,
    Silent,
    added,
    bookmark,
    deleted,
    error,
)

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

TABLE = {row.kind: row for row in watched_kinds("a=b")}
PODS = "/api/v1/pods"


class Run:
    """A watcher that ran until its script was used up."""

    def __init__(
        self,
        api: ScriptedApi,
        watcher: Watcher,
        got: list[tuple[Event, ...]],
        positions: list[str | None],
    ) -> None:
        self.api, self.watcher, self.positions = api, watcher, positions
        self.events = [event for events in got for event in events]

    @property
    def told(self) -> list[str]:
        return [tell(event) for event in self.events]

    @property
    def asked(self) -> list[dict[str, str]]:
        return [params for _, params in self.api.asked]


def tell(event: Event) -> str:
    match event:
        case PodApplied(pod=pod):
            return f"+{pod.name}"
        case PodDeleted(pod=pod):
            return f"-{pod.name}"
        case RelistStarted():
            return "("
        case RelistCompleted(resource_version=version, installed=installed):
            return f"){version}" if installed else ")absent"
        case _:
            return type(event).__name__


async def run(
    *script: Entry,
    since: str | None = None,
    kind: str = "Pod",
    stream: bool = False,
    watch_timeout_s: int = 10,
    idle_grace_s: float = 1,
    timeout_s: float = 10,
) -> Run:
    api = ScriptedApi(*script)
    got: list[tuple[Event, ...]] = []
    positions: list[str | None] = []
    numbers = iter(range(100))

    async def emit(_: Any, events: tuple[Event, ...], position: str | None) -> None:
        got.append(events)
        positions.append(position)

    watcher = Watcher(
        api,
        TABLE[cast(Any, kind)],
        emit,
        Start("start") if since is None else Watching(since),
        WatchOptions(
            page_size=2,
            watch_timeout_s=watch_timeout_s,
            idle_grace_s=idle_grace_s,
            stream=stream,
            first_wait_s=0.001,
            lasting_wait_s=0.01,
            probe_s=0.01,
            confirm_s=0.01,
            initial_idle_s=0.05,
            new_relist=lambda k: f"{k}-{next(numbers)}",
        ),
    )
    task = asyncio.create_task(watcher.run())
    done = asyncio.create_task(api.used_up.wait())
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.wait([task, done], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        for each in (task, done):
            each.cancel()
        await asyncio.gather(task, done, return_exceptions=True)
    return Run(api, watcher, got, positions)


async def test_pages_then_the_watch_from_the_lists_version():
    seen = await run(
        Listed("a", "b", version="10", token="t1"),
        Listed("c", version="10"),
        Lines(added("d", 11), deleted("a", 12), bookmark(20)),
        Lines(added("e", 21)),
    )
    assert seen.told == ["(", "+a", "+b", "+c", ")10", "+d", "-a", "+e"]
    first, second, watch, again, last = seen.asked
    assert first == {"limit": "2", "labelSelector": "a=b"}
    assert second == first | {"continue": "t1"}
    assert watch == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "10",
        "labelSelector": "a=b",
        "resourceVersion": "10",
    }
    assert (again["resourceVersion"], last["resourceVersion"]) == ("20", "21")
    # Nothing to resume from while the frame is open.
    assert seen.positions[:2] == [None, None]
    assert [p for p in seen.positions if p][:3] == ["10", "10", "12"]
    assert seen.watcher.problem == ""


async def test_a_resumed_kind_is_not_listed():
    seen = await run(Lines(added("d", 6)), since="5")
    assert seen.told == ["+d"]
    assert seen.asked[0]["resourceVersion"] == "5"
    assert "limit" not in seen.asked[0]


async def test_an_error_item_410_relists_and_says_why():
    seen = await run(
        Lines(error(410, "too old resource version: 5 (90)", "Expired")),
        Listed("a", version="90"),
        Lines(added("b", 91)),
        since="5",
    )
    assert seen.told == ["(", "+a", ")90", "+b"]
    assert isinstance(seen.events[0], RelistStarted)
    assert "410 Expired: too old resource version" in seen.events[0].reason
    assert "limit" in seen.asked[1]


async def test_an_answer_410_relists_and_the_same_version_is_never_asked_for_again():
    seen = await run(Refused(410, "gone", "Expired"), Listed(version="9"), since="5")
    assert seen.told == ["(", ")9"]
    assert [p.get("resourceVersion") for p in seen.asked] == ["5", None, "9"]


async def test_an_expired_continue_token_starts_a_new_frame():
    seen = await run(
        Listed("a", "b", version="10", token="t1"),
        Refused(410, "The provided continue parameter is too old", "Expired"),
        Listed("a", version="50"),
    )
    assert seen.told == ["(", "+a", "+b", "(", "+a", ")50"]
    frames = {e.relist for e in seen.events if isinstance(e, RelistStarted)}
    assert len(frames) == 2
    assert "continue" not in seen.asked[2]


async def test_a_broken_connection_resumes_from_the_last_version_without_a_relist():
    seen = await run(
        Lines(added("a", 6), added("b", 7), end="broken"),
        KubeUnavailable("connection refused"),
        Refused(503, "shutting down"),
        Lines(added("c", 8)),
        since="5",
    )
    assert seen.told == ["+a", "+b", "+c"]
    assert [p["resourceVersion"] for p in seen.asked] == ["5", "7", "7", "7", "8"]


async def test_a_broken_list_asks_for_the_same_page_again():
    seen = await run(
        Listed("a", "b", token="t1"), KubeUnavailable("reset"), Refused(500), Listed("c")
    )
    assert seen.told == ["(", "+a", "+b", "+c", ")10"]
    assert [p.get("continue") for p in seen.asked[:4]] == [None, "t1", "t1", "t1"]


async def test_a_line_cut_in_the_middle_is_read_again():
    whole = added("b", 7)
    seen = await run(
        Lines(added("a", 6), b'{"type":"ADDED","object":{"metadata":{"na', end="broken"),
        Lines(whole),
        since="5",
    )
    assert seen.told == ["+a", "+b"]
    assert seen.asked[1]["resourceVersion"] == "6"


async def test_silence_beyond_the_servers_timeout_and_grace_is_a_dead_connection():
    seen = await run(
        Silent(), Lines(added("a", 6)), since="5", watch_timeout_s=0, idle_grace_s=0.05
    )
    assert seen.told == ["+a"]
    assert [p["resourceVersion"] for p in seen.asked] == ["5", "5", "6"]


async def test_watch_list_streams_the_frame_and_goes_on_in_the_same_connection():
    seen = await run(
        Lines(added("a", 3), added("b", 4), bookmark(9, end=True), added("c", 10)), stream=True
    )
    assert seen.told == ["(", "+a", "+b", ")9", "+c"]
    assert {e.relist for e in seen.events if isinstance(e, PodApplied)} == {"Pod-0", ""}
    assert seen.asked[0]["sendInitialEvents"] == "true"
    assert seen.asked[0]["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in seen.asked[0]
    assert seen.asked[1]["resourceVersion"] == "10"


OLD_ETCD = error(500, "required storage feature RequestWatchProgress is disabled")


@pytest.mark.parametrize(
    "refusal", [Lines(OLD_ETCD), Refused(422, "sendInitialEvents is forbidden"), Refused(400)]
)
async def test_watch_list_falls_back_to_pages_in_the_same_frame_and_stays_there(refusal):
    seen = await run(
        refusal,
        Listed("a", version="10"),
        Lines(error(410, "too old", "Expired")),
        Listed("a", version="20"),
        stream=True,
    )
    assert seen.told == ["(", "+a", ")10", "(", "+a", ")20"]
    assert [("sendInitialEvents" in p, "limit" in p) for p in seen.asked[:4]] == [
        (True, False),
        (False, True),
        (False, False),
        (False, True),
    ]


async def test_an_interrupted_watch_list_needs_a_new_frame_and_twice_means_pages():
    seen = await run(
        Lines(added("a", 3), end="broken"),
        Lines(added("b", 4), end="closed"),
        Listed("b", version="10"),
        stream=True,
    )
    assert seen.told == ["(", "+a", "(", "+b", "(", "+b", ")10"]


@pytest.mark.parametrize("names", [(), ("a",)])
async def test_a_server_that_ignores_the_parameter_is_found_out_by_its_silence(names):
    """It sends what it has, like any watch, and never says that this was all."""
    silent = [Lines(*[added(n, 3) for n in names], end="silent") for _ in range(2)]
    seen = await run(*silent, Listed(*names, version="10"), stream=True)
    frames = ["(", *[f"+{n}" for n in names]] * 2 if names else []
    assert seen.told == [*frames, "(", *[f"+{n}" for n in names], ")10"]


async def test_quiet_after_the_initial_events_is_no_trouble():
    seen = await run(
        Lines(added("a", 3), bookmark(9, end=True), end="silent"), Lines(end="quiet"), stream=True
    )
    assert seen.told == ["(", "+a", ")9"]
    assert seen.asked[1]["resourceVersion"] == "9"
    assert seen.watcher.problem == ""


async def test_an_unreachable_server_does_not_fill_the_log_with_frames():
    refused = [KubeUnavailable("connection refused")] * 5
    seen = await run(*refused, Refused(503), Lines(bookmark(9, end=True)), stream=True)
    assert seen.told == ["(", ")9"]


async def test_an_absent_kind_is_reported_once_and_listed_when_it_appears():
    gone = Refused(404, "404 page not found")
    seen = await run(
        *[gone] * 6,
        Listed(version="3"),
        Listed(version="4"),
        kind="Workload",
    )
    assert seen.told == ["(", ")absent", "(", ")4"]
    assert isinstance(seen.watcher.state, Watching)
    paths = [path for path, _ in seen.api.asked]
    assert paths[:2] == [
        "/apis/kueue.x-k8s.io/v1beta2/workloads",
        "/apis/kueue.x-k8s.io/v1beta1/workloads",
    ]
    assert paths[-1] == "/apis/kueue.x-k8s.io/v1beta2/workloads"


async def test_an_older_server_is_watched_in_its_own_version():
    seen = await run(Refused(404), Listed(version="3"), Lines(bookmark(4)), kind="ClusterQueue")
    assert {path for path, _ in seen.api.asked[1:]} == {
        "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"
    }
    resumed = await run(Refused(404), Lines(bookmark(4)), kind="ClusterQueue", since="3")
    assert resumed.told == []
    assert [p["resourceVersion"] for p in resumed.asked] == ["3", "3", "4"]


async def test_a_kind_that_vanishes_is_confirmed_before_its_objects_are_gone():
    gone = [Refused(404)] * 2
    there = await run(*gone, Listed(version="8"), Listed(version="9"), kind="Workload", since="5")
    assert there.told == ["(", ")9"]
    vanished = await run(*gone, *gone, kind="Workload", since="5")
    assert vanished.told == ["(", ")absent"]
    assert vanished.watcher.state == Absent(reported=True)


async def test_missing_permission_is_told_retried_and_recovers():
    seen = await run(
        Refused(403, "forbidden"), Refused(403, "forbidden"), Listed("a"), Lines(bookmark(11))
    )
    assert seen.told == ["(", "+a", ")10"]
    stuck = await run(Refused(403, "forbidden"))
    assert "not allowed to list pods" in stuck.watcher.problem
    assert stuck.watcher.listed.is_set()


async def test_a_permission_that_is_taken_away_shows_until_it_is_back():
    taken = await run(Refused(403, "no"), since="5")
    assert "not allowed to watch pods" in taken.watcher.problem
    back = await run(Refused(403, "no"), Lines(end="quiet"), since="5")
    assert back.watcher.problem == ""


async def test_refused_credentials_are_told():
    stuck = await run(KubeUnauthorized("renew the login"), since="5")
    assert stuck.watcher.problem == "renew the login"


async def test_the_first_list_waits_for_its_turn():
    turn = asyncio.Event()
    api = ScriptedApi(Listed("a"))

    async def emit(*_: Any) -> None:
        pass

    watcher = Watcher(
        api,
        TABLE["Pod"],
        emit,
        Start("start"),
        WatchOptions(stream=False, new_relist=lambda k: k),
    )
    watcher.after = turn
    task = asyncio.create_task(watcher.run())
    await asyncio.sleep(0.02)
    assert api.asked == []
    turn.set()
    await asyncio.wait_for(watcher.listed.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(api.asked) >= 1
