"""What the benchmarks measure is what they say: the story is whole, the arithmetic is right."""

import subprocess
from pathlib import Path

import pytest

from bench.cluster import (
    UNGATED,
    Line,
    Meta,
    PodWatch,
    SeenPod,
    Spec,
    Status,
    gated,
    pods_of,
    ungate,
)
from bench.core import _fold
from bench.figures import HISTORY, Figure, kept, percentile, show, write
from bench.latency import _without_own
from bench.load import BASELINE, NOMINAL, Users, _outcome, _Work
from bench.paired import ROOT, Log, Turn, by_turns, other_version, said
from bench.pending import PODS
from bench.pending import Line as WaitingLine
from bench.story import CLUSTER, Story
from podgroup.engine import new_world, step
from podgroup.log.codec import decode_batch
from simcluster.settings import Settings
from tests.support.processes import Api
from tests.support.standin import SimCluster


@pytest.mark.parametrize("groups, size", [(3, 4), (1, 40), (5, 1)])
def test_a_story_folds_to_its_end(groups: int, size: int) -> None:
    story = Story(groups, size, at_once=2)
    _fold(story)
    world = new_world(CLUSTER)
    for message in story.messages:
        step(world, message.position, message.at, decode_batch(message.body))
    kinds = [note.kind for note in world.journal.notes]
    assert kinds.count("PodSucceeded") == groups * size
    assert kinds.count("GroupGone") == groups
    assert not world.groups
    assert not world.journal.parked
    made = [type(decision.command).__name__ for decision in world.journal.decisions]
    assert made.count("UngatePod") == made.count("FinalizePod") == groups * size
    assert made.count("CreateWorkload") == groups


def test_under_load_the_same_happens_in_fewer_messages() -> None:
    story = Story(6, 4, at_once=3, message_bytes=5_000)
    world = new_world(CLUSTER)
    folded = 0
    for message in story.messages:
        batch = decode_batch(message.body)
        assert len(batch.events) == message.events
        folded += message.events
        assert len(message.body) < 6_000
        step(world, message.position, message.at, batch)
    assert folded == story.events > 3 * len(story.messages)
    kinds = [note.kind for note in world.journal.notes]
    assert kinds.count("PodSucceeded") == 24
    assert kinds.count("GroupGone") == 6
    assert not world.groups
    assert len(world.journal.decisions) == story.decisions


def test_two_stories_are_equal() -> None:
    assert Story(3, 4).messages == Story(3, 4).messages


def test_the_ratio_is_of_the_best_possible() -> None:
    assert Figure(name="r", value=50, unit="events/s", limit=200).ratio == 0.25
    assert Figure(name="t", value=50, unit="ms", limit=10).ratio == 0.2
    assert Figure(name="n", value=50, unit="ms").ratio is None


def test_percentiles_are_samples() -> None:
    samples = [float(n) for n in range(100, 0, -1)]
    assert percentile(samples, 50) == 50
    assert percentile(samples, 99) == 99
    assert percentile([3.0], 99) == 3.0


def test_a_users_own_requests_are_not_counted() -> None:
    from collections import Counter

    used = Counter({"create pods": 5, "patch pods": 10, "watch pods": 0})
    assert _without_own(used, 5) == Counter({"patch pods": 10})


def test_results_are_json_lines(tmp_path: Path) -> None:
    place = tmp_path / "results.jsonl"
    write(place, [Figure(name="a", value=1, unit="ms"), Figure(name="b", value=2, unit="ms")])
    assert [line[:11] for line in place.read_text().splitlines()] == ['{"name":"a"', '{"name":"b"']


def test_results_keep_the_last_commits_of_a_name_and_of_a_commit_the_last_figure() -> None:
    found: list[Figure] = []
    for number in range(HISTORY + 2):
        for value in (1.0, 2.0):  # measured twice, the first time with files changed
            commit = f"c{number}{'+' if value < 2 else ''}"
            found = kept(found, [Figure(name="a", value=value, unit="ms", commit=commit)])
    found = kept(found, [Figure(name="b", value=1, unit="ms")])
    assert [one.commit for one in found if one.name == "a"] == [f"c{n}" for n in range(2, 8)]
    assert {one.value for one in found if one.name == "a"} == {2}
    assert found[-1].name == "b"


def test_what_is_wanted_is_held_against_what_was_had(capsys: pytest.CaptureFixture[str]) -> None:
    slow = Figure(name="rate", value=500, unit="events/s", target=1000)
    quick = Figure(name="time", value=9, unit="ms", target=10)
    show([slow, quick, Figure(name="seen", value=1, unit="ms")], [quick])
    table = capsys.readouterr().out.split("wanted")[1]
    assert "missed by 100%" in next(line for line in table.splitlines() if "rate" in line)
    assert next(line for line in table.splitlines() if "time" in line).split()[-1] == "met"
    assert "seen" not in table


def test_a_tree_is_measured_beside_another_version_by_turns() -> None:
    logs = (Log("small", 2, 3, 0),)
    [turns] = by_turns(ROOT, logs, turns=2)
    assert len(turns) == 2
    assert all(turn.now_us > 0 and turn.before_us > 0 for turn in turns)
    assert "WARNING" in said(logs[0], [Turn(10.0, 11.5)])
    assert "WARNING" not in said(logs[0], [Turn(10.0, 10.5)])


def test_a_version_that_cannot_be_measured_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").touch()
    (tmp_path / "bench" / "core.py").write_text("before = 'there were stories'\n")
    with pytest.raises(ValueError, match="cannot import name 'Story'"):
        by_turns(tmp_path, (Log("small", 2, 3, 0),), turns=1)


def test_the_other_version_is_where_main_was_left(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        told = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ["git", "-C", tmp_path, *told, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init")
    git("commit", "--allow-empty", "-m", "first")
    assert other_version(tmp_path) == "", "as in a shallow clone"
    first = git("rev-parse", "HEAD")
    git("commit", "--allow-empty", "-m", "second")
    assert other_version(tmp_path) == first, "main itself: the commit before"
    git("checkout", "-q", "-b", "work", first)
    git("commit", "--allow-empty", "-m", "third")
    git("commit", "--allow-empty", "-m", "fourth")
    assert other_version(tmp_path) == first, "a branch: where it left main"
    assert other_version(tmp_path, "HEAD~1") == git("rev-parse", "HEAD~1")


def test_each_pass_lets_the_next_one_of_the_line_in() -> None:
    line = WaitingLine(3)
    waiting = line._toy.world.quotas.waiting
    assert line.new() > 0
    assert len(waiting) == 3, f"the {PODS} that came are gone again"
    for number in range(1, 4):
        assert line.freed() > 0
        assert line._running == f"waits-{number}"
        assert len(waiting) == 3, "one came, one was let in"


async def test_who_is_preempted_comes_again_and_counts_from_the_first_time() -> None:
    kind = BASELINE[0]._replace(workloads=1)
    users = Users(Api("http://127.0.0.1:1", ""), [_Work("q", kind, 0), _Work("q", kind, 1)])

    def see(name: str, what: str = "MODIFIED", phase: str = "Running") -> None:
        users.feed(Line(what, SeenPod(Meta(name), Spec(), Status(phase))))

    made = list(users.works)
    for name in made:
        users.came[name] = 0.0
        users.tries[name] = 1
        see(f"{name}-1")
    first = users.admitted[made[0]]
    see(f"{made[0]}-1", "DELETED")
    assert users._to_make.get_nowait() == made[0]
    users.tries[made[0]] = 2
    see(f"{made[0]}-2")
    assert users.admitted[made[0]] == first
    see(f"{made[1]}-1", phase="Succeeded")
    see(f"{made[1]}-1", "DELETED", "Succeeded")
    assert users._to_make.empty(), "who has ended is not made again"
    assert not users.over.is_set()
    see(f"{made[0]}-2", phase="Succeeded")
    assert users.over.is_set()
    got = _outcome(users, 1, {})
    assert (got.works, got.preempted) == (2, 1)
    assert got.usage == pytest.approx(2 * 0.2 / (NOMINAL * got.whole_s))
    await users._api.http.close()


async def test_a_watch_goes_on_where_it_was_when_the_server_ends_it() -> None:
    async with (
        SimCluster(Settings(scheduler=False)) as server,
        Api(server.url, server.token) as api,
        PodWatch(api, "default") as watch,
    ):
        for number in range(6):
            name = f"p{number}"
            await api.call("POST", pods_of("default"), gated(name))
            if number == 2:
                server.faults.drop_watches()
            elif number == 4:
                server.faults.drop_watches(abrupt=True)
                server.compact()
            await ungate(api, "default", name)
            await watch.until(UNGATED, [name], timeout_s=10)
        assert sorted(watch.seen[UNGATED]) == [f"p{number}" for number in range(6)]
        assert watch.opened >= 3
