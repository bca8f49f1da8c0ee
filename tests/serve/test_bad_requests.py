"""Nonsense is refused with a sentence: parameters, paths, methods; and nothing of it is SQL."""

import random
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatelog.serve.api import params, selectors, visibility
from gatelog.serve.api.selectors import Term
from gatelog.serve.api.status import Refused
from tests.serve.conftest import World

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

OWN = "/apis/gatelog.io/v1beta1"
VISIBLE = "/apis/visibility.kueue.x-k8s.io/v1beta2"


async def refused(world: World, path: str, method: str = "GET", **query: str) -> tuple[int, str]:
    status, said, _ = await world.client().request(method, path, params=query)
    assert isinstance(said, dict), said
    assert said["kind"] == "Status"
    assert said["code"] == status
    return status, said["message"]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"limit": "-1"}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"limit": "9" * 30}, "limit"),
        ({"limit": "١"}, "limit"),
        ({"timeoutSeconds": "1.5"}, "timeoutSeconds"),
        ({"watch": "perhaps"}, "watch"),
        ({"resourceVersion": "newest"}, "resourceVersion"),
        ({"labelSelector": "a==b=c"}, "label selector"),
        ({"labelSelector": "a in ("}, "label selector"),
        ({"labelSelector": "'; DROP TABLE groups; --"}, "label selector"),
        ({"labelSelector": ",".join(f"k{i}=v" for i in range(99))}, "terms"),
        ({"fieldSelector": "status.colour=red"}, "status.state"),
        ({"fieldSelector": "1=1"}, "field selector"),
        ({"labelSelector": "x" * 5000}, "longer than"),
        ({"fieldSelector": "metadata.name=\x00"}, "NUL"),
    ],
)
async def test_parameters_are_named_with_what_is_allowed(
    world: World, query: dict[str, str], word: str
):
    status, message = await refused(world, f"{OWN}/podgroups", **query)
    assert status == 400
    assert word in message


async def test_paths_methods_and_forms(world: World):
    for day in ("9999-12-31", "20261122", "2026-w01-1", "0000-01-01"):
        assert (await refused(world, f"{OWN}/namespaces/ns/namespaceusages/{day}"))[0] == 404
    assert (await refused(world, f"{OWN}/podgroups", "POST"))[0] == 405
    assert (await refused(world, f"{OWN}/namespaces/ns/podgroups/a", "DELETE"))[0] == 405
    status, message = await refused(world, f"{OWN}/podgroups", "PATCH")
    assert (status, "read only" in message) == (405, True)
    for path in (
        "nothing",
        "podgroups/a",
        "namespaces/ns/podgroups/a/log",
        "namespaces/ns/x/y/z/w",
    ):
        assert (await refused(world, f"{OWN}/{path}"))[0] == 404
    assert (await refused(world, f"{OWN}/namespaces/NS!/podgroups"))[0] == 400
    assert (await refused(world, f"{OWN}/namespaces/ns/podgroups/..%2fx"))[0] in (400, 404)
    assert (await refused(world, f"{OWN}/podgroups", **{"continue": "abc"}))[0] == 410
    assert (await refused(world, f"{OWN}/podgrouphistories", watch="1"))[0] == 405
    assert (await refused(world, f"{OWN}/podgroups", watch="1", sendInitialEvents="true"))[0] == 422
    assert (await refused(world, f"{OWN}/clusterqueueusages", labelSelector="a=b"))[0] == 400
    assert (await refused(world, f"{VISIBLE}/clusterqueues/cq"))[0] == 404
    assert (await refused(world, f"{VISIBLE}/clusterqueues/cq/pendingworkloads", limit="x"))[
        0
    ] == 400
    as_table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    status, said, _ = await world.client().request(
        "GET", f"{OWN}/podgroups", params={"includeObject": "Everything"}, headers=as_table
    )
    assert status == 400
    assert "includeObject" in said["message"]


async def test_anything_is_answered_and_never_by_an_error_of_ours(world: World):
    chance = random.Random(15)
    letters = string.printable + "äß€\u202e"
    names = ("limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "offset")
    paths = (f"{OWN}/podgroups", f"{OWN}/podgrouppositions", f"{OWN}/queueusages")
    for _ in range(150):
        query = {
            chance.choice(names): "".join(chance.choices(letters, k=chance.randint(0, 12)))
            for _ in range(chance.randint(0, 3))
        }
        status, said, _ = await world.client().request("GET", chance.choice(paths), params=query)
        assert status in (200, 400, 410), (query, said)
        if status != 200:
            assert len(said["message"].split()) > 4


@given(st.text(max_size=60))
def test_label_selectors_are_read_or_refused(text: str):
    terms, code = read_or_code(lambda: selectors.read_labels(text))
    if code:
        assert code == 400
        return
    conditions, given_values = selectors.label_conditions(terms)
    for condition in conditions:
        assert set(condition) <= set("x.labels->:kv_0123456789 ISNOTULR=<>(),"), condition
    assert all(isinstance(value, str) for value in given_values.values())


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=20), max_size=4))
def test_listings_are_read_or_refused(query: dict[str, str]):
    found, code = read_or_code(lambda: params.read_listing(query))
    if code:
        assert 400 <= code < 500
    else:
        assert 1 <= found.limit <= params.MOST


def read_or_code(read: Callable[[], Any]) -> tuple[Any, int]:
    try:
        return read(), 0
    except Refused as refusal:
        return None, refusal.code


@given(st.text("abc/=!,() inot", max_size=30), st.dictionaries(st.text("abc"), st.text("abc")))
def test_terms_hold_as_their_words_say(text: str, labels: dict[str, str]):
    try:
        terms = selectors.read_labels(text)
    except Refused:
        return
    for term in terms:
        opposite: dict[str, Any] = {"in": "notin", "notin": "in", "has": "hasnot", "hasnot": "has"}
        other = Term(term.key, opposite[term.verb], term.values)
        assert term.holds(labels) != other.holds(labels)


def test_limits_of_pending_workloads_are_kueues():
    assert visibility.bounds({}) == (1000, 0)
    assert visibility.bounds({"limit": "-5", "offset": "-1"}) == (0, 0)
    assert visibility.bounds({"limit": "999999999"}) == (100_000, 0)
