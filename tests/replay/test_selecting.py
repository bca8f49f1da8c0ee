"""What was set aside is in an export of those it concerns, under their names or others."""

import msgspec

from podgroup.log.events import DeltaRefused, Event, OperatorActed, PodApplied, Undecodable
from podgroup.state.world import World
from projector.replay.fold import Beginning, Callbacks, fold
from projector.replay.log import Entry
from projector.replay.pseudonyms import Pseudonyms
from projector.replay.selecting import Selection, Wanted
from tests.replay.support import log_of
from tests.support.toy import Toy


def undecodable(toy: Toy, name: str) -> Undecodable:
    """The next change of a pod, as a later version would write it."""
    view = toy.last[name]
    raw = {"type": "pod_applied.v9", "pod": msgspec.to_builtins(view)}
    return Undecodable(error="Invalid value 'pod_applied.v9'", raw=msgspec.json.encode(raw))


def refusal(toy: Toy, name: str, group: str) -> DeltaRefused:
    return DeltaRefused(
        kind="Pod",
        namespace="ns",
        name=name,
        uid=f"u-{name}",
        resource_version=toy.bump(),
        field="spec",
        message="of secret things",
        group=group,
    )


def played(release: bool) -> tuple[Toy, int]:
    """Two groups, both stopped by events of one message; returns the position of that as well."""
    toy = Toy()
    for name in ("a0", "b0"):
        toy.pod(name, name[0], 2)
    toy.send(
        undecodable(toy, "b0"),
        refusal(toy, "b9", "b"),
        undecodable(toy, "a0"),
        refusal(toy, "a9", "a"),
        Undecodable(error="no batch", raw=b"\xff"),
    )
    place = toy.position
    toy.settle()
    if release:
        toy.do(OperatorActed(action="release", target=f"{place}/2", by="me"))
        toy.do(OperatorActed(action="release", target=f"{place}/0", by="me"))
    toy.pod("a1", "a", 2)
    return toy, place


async def chosen(toy: Toy, wanted: Wanted) -> tuple[Selection, list[Entry]]:
    selection = Selection(wanted)
    log = log_of(toy)
    begin = Beginning("test", "builtin")
    await fold(log.entries(), begin, calls=Callbacks(selection.learn))
    selection.close()
    kept = [selection.select(entry) async for entry in log.entries()]
    return selection, [entry for entry in kept if entry is not None]


async def folded(entries: list[Entry]) -> World:
    async def given():
        for entry in entries:
            yield entry

    return (await fold(given(), Beginning("test", "builtin"))).world


def parked(world: World) -> dict[str, str]:
    return {group.name: group.parked.partition(" ")[0] for group in world.groups.values()}


async def test_a_group_that_was_stopped_is_stopped_in_its_export() -> None:
    toy, place = played(release=False)
    assert parked(toy.world) == {"a": f"{place}/2", "b": f"{place}/0"}
    selection, entries = await chosen(toy, Wanted(namespace="ns", name="a"))
    (entry,) = (entry for entry in entries if entry.position == place)
    assert [type(event) for event in entry.batch.events] == [Undecodable, DeltaRefused]
    assert parked(await folded(entries)) == {"a": f"{place}/0"}
    assert selection.unknown == 1, "of what names nobody it is not known"


async def test_a_release_follows_what_it_releases() -> None:
    toy, place = played(release=True)
    assert toy.group("a").explained.state == "Queued" or not toy.group("a").parked
    _, entries = await chosen(toy, Wanted(namespace="ns", name="a"))
    events: list[Event | Undecodable] = [e for entry in entries for e in entry.batch.events]
    (released,) = (event for event in events if isinstance(event, OperatorActed))
    assert released.target == f"{place}/0"
    world = await folded(entries)
    assert parked(world) == {"a": ""}
    (group,) = world.groups.values()
    assert (group.explained.state, group.explained.reason) == (
        toy.group("a").explained.state,
        toy.group("a").explained.reason,
    )


async def test_of_a_namespace_there_is_all_that_names_it() -> None:
    toy, place = played(release=False)
    selection, entries = await chosen(toy, Wanted(namespace="ns"))
    (entry,) = (entry for entry in entries if entry.position == place)
    assert len(entry.batch.events) == 4 and selection.unknown == 1
    elsewhere, entries = await chosen(toy, Wanted(namespace="other"))
    assert not any(entry.position == place for entry in entries) and elsewhere.unknown == 1


async def test_under_pseudonyms_the_same_groups_are_stopped_and_nothing_is_told() -> None:
    toy, place = played(release=False)
    log = log_of(toy)
    names = Pseudonyms(b"key")
    async for entry in log.entries():
        names.learn(entry)
    entries = [names.entry(entry) async for entry in log.entries()]
    world = await folded(entries)
    assert sorted(filter(None, parked(world).values())) == [f"{place}/0", f"{place}/2"]
    (hidden,) = (entry for entry in entries if entry.position == place)
    assert len(hidden.batch.events) == 5
    for event in hidden.batch.events:
        raw = event.raw if isinstance(event, Undecodable) else msgspec.json.encode(event)
        assert b'"ns"' not in raw and b'"a0"' not in raw and b"secret" not in raw
        assert not isinstance(event, PodApplied)
        assert not isinstance(event, Undecodable) or event.error == "(left out)"
