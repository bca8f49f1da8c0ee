"""The state machine, transition by transition, without I/O."""

import json
from typing import Any

import pytest

from ingest.states import (
    MAX_STRIKES,
    Absent,
    HttpRefusal,
    InitialWatch,
    Listing,
    Start,
    Watching,
    begin,
    on_close,
    on_item,
    on_page,
    on_probe,
    on_refusal,
    position,
)
from ingest.translate.items import Bookmark, Delta, ErrorItem, Garbled, read_page
from podgroup.log.events import PodApplied, RelistCompleted, RelistStarted
from tests.ingest.recorded import TABLE, as_line, exchanges, first_pod

POD = TABLE["Pod"]
WORKLOAD = TABLE["Workload"]
ITEM = POD.translator.item(as_line({"type": "ADDED", "object": first_pod()}))


def page(version: str, token: str, *names: str):
    items = [{**first_pod(), "metadata": {**first_pod()["metadata"], "name": n}} for n in names]
    return read_page(
        json.dumps(
            {"metadata": {"resourceVersion": version, "continue": token}, "items": items}
        ).encode()
    )


def new_relist(kind: str) -> str:
    return f"{kind}-r1"


@pytest.mark.parametrize("stream", [True, False])
def test_start_opens_a_frame_that_says_why(stream):
    opened = begin(POD, Start("because"), new_relist, stream)
    assert opened.events == (
        RelistStarted(kind="Pod", relist="Pod-r1", reason="because", by_settings=True),
    )
    assert isinstance(opened.state, InitialWatch if stream else Listing)
    assert position(opened.state) is None


def test_pages_are_one_frame_at_the_version_of_the_first():
    first = on_page(POD, Listing("r1"), page("10", "more", "a", "b"))
    assert [e.pod.name for e in first.events if isinstance(e, PodApplied)] == ["a", "b"]
    assert len(first.events) == 2
    assert first.state == Listing("r1", 0, "more", "10", 2)
    assert position(first.state) is None
    last = on_page(POD, first.state, page("10", "", "c"))
    assert last.events[-1] == RelistCompleted(
        kind="Pod", relist="r1", resource_version="10", count=3, filtered=True
    )
    assert {getattr(e, "relist", "") for e in last.events} == {"r1"}
    assert position(last.state) == "10"


def test_an_empty_list_is_a_complete_frame():
    done = on_page(POD, Listing("r1"), page("3", ""))
    assert done.events == (
        RelistCompleted(kind="Pod", relist="r1", resource_version="3", count=0, filtered=True),
    )
    assert done.state == Watching("3")


def test_a_watch_item_moves_the_version_along_and_so_does_a_refused_one():
    assert isinstance(ITEM, Delta)
    seen = on_item(POD, Watching("1", strikes=2), ITEM)
    assert isinstance(seen.events[0], PodApplied)
    assert seen.state == Watching(ITEM.version)
    bad = POD.translator.item(as_line({"type": "ADDED", "object": first_pod() | {"spec": 3}}))
    assert on_item(POD, Watching("1"), bad).state == Watching(ITEM.version)


def test_bookmarks_advance_the_version_without_an_event():
    seen = on_item(POD, Watching("1"), Bookmark("99"))
    assert (seen.events, position(seen.state)) == ((), "99")
    assert on_item(POD, InitialWatch("r1", count=4), Bookmark("99")).state == InitialWatch(
        "r1", count=4
    )


def test_the_end_bookmark_completes_the_initial_watch_and_the_watch_goes_on():
    state: Any = InitialWatch("r1", api=1, count=0)
    state = on_item(POD, state, ITEM).state
    assert position(state) is None
    done = on_item(POD, state, Bookmark("277", initial_end=True))
    assert done.events == (
        RelistCompleted(kind="Pod", relist="r1", resource_version="277", count=1, filtered=True),
    )
    assert done.state == Watching("277", 1)


@pytest.mark.parametrize("state", [Watching("1"), Listing("r1", token="t"), InitialWatch("r1")])
def test_410_relists_with_a_reason(state):
    expired = ErrorItem(410, "Expired", "too old resource version: 1 (2)")
    if isinstance(state, Listing):
        seen = on_refusal(
            POD, state, HttpRefusal(410, "Expired", "too old resource version: 1 (2)")
        )
    else:
        seen = on_item(POD, state, expired)
    assert isinstance(seen.state, Start)
    assert "410 Expired" in seen.state.reason
    assert "too old" in seen.state.reason


def test_watch_list_falls_back_within_the_frame_for_the_recorded_error_item():
    recorded = ErrorItem(500, "", "required storage feature RequestWatchProgress is disabled")
    seen = on_item(POD, InitialWatch("r1"), recorded)
    assert (seen.state, seen.pages_only, seen.trouble) == (Listing("r1"), True, None)
    # Once objects were delivered the frame shows two moments: a new one is needed.
    late = on_item(POD, InitialWatch("r1", count=3), recorded)
    assert isinstance(late.state, Start)
    assert late.pages_only


@pytest.mark.parametrize("status", [400, 422])
def test_watch_list_falls_back_where_its_parameters_are_unknown(status):
    seen = on_refusal(POD, InitialWatch("r1"), HttpRefusal(status, "Invalid", "sendInitialEvents"))
    assert (seen.state, seen.pages_only) == (Listing("r1"), True)


def test_another_500_in_a_watch_list_is_trouble_and_not_a_fallback():
    seen = on_item(POD, InitialWatch("r1"), ErrorItem(500, "InternalError", "etcd is gone"))
    assert (seen.state, seen.pages_only) == (InitialWatch("r1"), False)
    assert seen.trouble


def test_an_interrupted_initial_watch_needs_a_new_frame_only_if_something_was_delivered():
    assert on_close(InitialWatch("r1"), "reset").state == InitialWatch("r1")
    again = on_close(InitialWatch("r1", count=1), "reset by peer")
    assert isinstance(again.state, Start)
    assert "reset by peer" in again.state.reason
    assert isinstance(on_close(InitialWatch("r1", count=1)).state, Start)


def test_a_broken_connection_resumes_where_it_was():
    listing = Listing("r1", token="t", version="5", count=9)
    assert on_close(listing, "reset").state == listing
    watching = Watching("7")
    assert on_close(watching, "reset").state == watching
    assert on_close(watching, "reset").trouble
    assert on_close(watching).trouble is None


def test_a_cut_line_resumes_but_not_for_ever():
    state: Any = Watching("7")
    for _ in range(MAX_STRIKES - 1):
        state = on_item(POD, state, Garbled("truncated")).state
        assert isinstance(state, Watching)
    assert position(state) == "7"
    assert isinstance(on_item(POD, state, Garbled("truncated")).state, Start)


def test_a_version_that_is_no_number_relists():
    answer = exchanges()["watch from a resourceVersion that is no number"]["response"]
    said = answer["watch"][0]
    seen = on_refusal(POD, Watching("abc"), HttpRefusal(500, "", said["message"]))
    assert isinstance(seen.state, Start)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_server_trouble_keeps_the_state_and_the_servers_wish(status):
    for state in (Watching("7"), Listing("r1", token="t"), InitialWatch("r1")):
        seen = on_refusal(POD, state, HttpRefusal(status, "x", "y", 3.0))
        assert seen.state == state
        assert seen.trouble
        assert (seen.trouble.lasting, seen.trouble.retry_after_s) == (False, 3.0)


def test_forbidden_names_verb_and_resource_and_lasts():
    seen = on_refusal(WORKLOAD, Watching("7"), HttpRefusal(403, "Forbidden", "no"))
    assert seen.state == Watching("7")
    assert seen.trouble
    assert seen.trouble.lasting
    assert "watch workloads.kueue.x-k8s.io" in seen.trouble.message
    listing = on_refusal(POD, Listing("r1"), HttpRefusal(403, "Forbidden", "no")).trouble
    assert listing
    assert "list pods" in listing.message
    trouble = on_refusal(POD, Listing("r1"), HttpRefusal(401, "Unauthorized", "no")).trouble
    assert trouble is not None
    assert trouble.lasting


def test_a_refused_continue_token_starts_over():
    answer = exchanges()["list with a nonsense continue token"]["response"]["body"]
    seen = on_refusal(
        POD,
        Listing("r1", token="bm9uc2Vuc2U"),
        HttpRefusal(400, answer["reason"], answer["message"]),
    )
    assert isinstance(seen.state, Start)
    plain = on_refusal(POD, Listing("r1"), HttpRefusal(400, "BadRequest", "bad selector"))
    assert plain.state == Listing("r1")


def test_404_tries_the_older_version_then_says_that_the_kind_is_absent():
    gone = HttpRefusal(404, "", "404 page not found")
    older = on_refusal(WORKLOAD, InitialWatch("r1"), gone)
    assert older.state == InitialWatch("r1", api=1)
    absent = on_refusal(WORKLOAD, older.state, gone)
    assert absent.events == (
        RelistCompleted(kind="Workload", relist="r1", resource_version="", installed=False),
    )
    assert absent.state == Absent(reported=True)
    resumed = on_refusal(WORKLOAD, Watching("7"), gone)
    assert resumed.state == Watching("7", api=1)


def test_a_kind_that_was_there_is_looked_for_again_before_it_is_declared_absent():
    vanished = on_refusal(WORKLOAD, Watching("7", api=1), HttpRefusal(404))
    assert (vanished.events, vanished.state) == ((), Absent(reported=False))
    back = on_probe(WORKLOAD, Absent(), 0, new_relist)
    assert isinstance(back.state, Start)
    confirmed = on_probe(WORKLOAD, Absent(), None, new_relist)
    assert [type(e) for e in confirmed.events] == [RelistStarted, RelistCompleted]
    assert getattr(confirmed.events[1], "installed", None) is False
    assert confirmed.state == Absent(reported=True)
    assert on_probe(WORKLOAD, Absent(reported=True), None, new_relist).events == ()
    assert on_probe(WORKLOAD, Absent(reported=True), 1, new_relist).state == Start(
        "the kind is installed now", 1
    )
