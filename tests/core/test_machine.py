"""Users, crashes, duplicates, conflicts, relists and evictions in any order, against the core.

Hypothesis writes programs for `tests.support.rough`: there is what a step does and what must hold
after each. At the end of a program everything comes to rest and is held against the API server's
view; the log is folded again without the crashes; everything is deleted, and nothing may be left.

A program that failed once is kept in kept_programs.json, with what it found, and played every time.
A new one is printed as such an entry. Hypothesis plays 40 programs, the same each time;
GATELOG_TEST_PROGRAMS=5000 plays as many others.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.support.rough import Rough

KEPT = json.loads(Path(__file__).with_name("kept_programs.json").read_text())
PROGRAMS = int(os.environ.get("GATELOG_TEST_PROGRAMS", "40"))


def whole(rough: Rough) -> None:
    """What ends every program."""
    rough.step_fold(10_000)
    rough.rest()
    rough.replayed()
    rough.emptied()


@pytest.mark.parametrize("kept", KEPT, ids=[entry["found"] for entry in KEPT])
def test_programs_that_failed_once(kept: dict[str, Any]) -> None:
    rough = Rough(**kept["begin"])
    rough.play(kept["steps"])
    whole(rough)


def test_every_step_is_played_by_some_kept_program_or_rule() -> None:
    steps = {name.removeprefix("step_") for name in dir(Rough) if name.startswith("step_")}
    assert {verb for entry in KEPT for verb, *_ in entry["steps"]} <= steps
    assert steps <= set(dir(Machine))


def up_to(most: int) -> st.SearchStrategy[int]:
    """Whole numbers from 0; the same ones in the same order whatever modules are loaded.

    `st.integers` also draws constants that it finds in loaded modules: which programs are played
    would depend on which tests a worker has played before.
    """
    return st.sampled_from(range(most + 1))


some = up_to(11)


class Machine(RuleBasedStateMachine):
    """One program. Rules that move things on are there more than once, so that things happen."""

    @initialize(
        mode=st.sampled_from(["builtin", "builtin", "kueue"]),
        strategy=st.sampled_from(["BestEffortFIFO", "StrictFIFO"]),
        within=st.sampled_from(["LowerPriority", "Never", "LowerOrNewerEqualPriority"]),
        ready_s=st.sampled_from([0, 30]),
        workloads=st.sampled_from(["all", "groups"]),
    )
    def begin(self, mode: str, strategy: str, within: str, ready_s: int, workloads: str) -> None:
        self.begun: dict[str, Any] = {
            "mode": mode,
            "strategy": strategy,
            "within": within,
            "ready_s": ready_s,
            "workloads": workloads,
        }
        self.steps: list[list[Any]] = []
        self.rough = Rough(**self.begun)

    def _do(self, verb: str, *numbers: int) -> None:
        self.steps.append([verb, *numbers])
        with Kept(self.begun, self.steps):
            self.rough.do_step(verb, *numbers)

    @rule(group=some, cpu=up_to(1), more=up_to(5))
    def create(self, group: int, cpu: int, more: int) -> None:
        self._do("create", group, cpu, more)

    @rule(group=some, cpu=up_to(1))
    def fill(self, group: int, cpu: int) -> None:
        self._do("fill", group, cpu)

    @rule(pick=some)
    def delete(self, pick: int) -> None:
        self._do("delete", pick)

    @rule(pick=some)
    def run(self, pick: int) -> None:
        self._do("run", pick)

    @rule(pick=some, good=up_to(1))
    def end(self, pick: int, good: int) -> None:
        self._do("end", pick, good)

    @rule(pick=some, what=up_to(6))
    def relabel(self, pick: int, what: int) -> None:
        self._do("relabel", pick, what)

    @rule(pick=some, what=up_to(1))
    def tamper(self, pick: int, what: int) -> None:
        self._do("tamper", pick, what)

    @rule(pick=some)
    def drop(self, pick: int) -> None:
        self._do("drop", pick)

    @rule(pick=some)
    def active(self, pick: int) -> None:
        self._do("active", pick)

    @rule(cpu=up_to(6))
    def quota(self, cpu: int) -> None:
        self._do("quota", cpu)

    @rule(how=up_to(2))
    def stop_queue(self, how: int) -> None:
        self._do("stop_queue", how)

    @rule()
    def local(self) -> None:
        self._do("local")

    @rule(pick=some, what=up_to(2))
    def core(self, pick: int, what: int) -> None:
        self._do("core", pick, what)

    @rule(kind=up_to(5), count=up_to(3))
    def see(self, kind: int, count: int) -> None:
        self._do("see", kind, count)

    @rule(kind=up_to(5), how=up_to(2))
    def relist(self, kind: int, how: int) -> None:
        self._do("relist", kind, how)

    @rule(back=some)
    def again(self, back: int) -> None:
        self._do("again", back)

    @rule(seconds=up_to(60))
    def wait(self, seconds: int) -> None:
        self._do("wait", seconds)

    @rule(count=up_to(3))
    def fold(self, count: int) -> None:
        self._do("fold", count)

    @rule(count=up_to(3))
    def crash(self, count: int) -> None:
        self._do("crash", count)

    @rule(pick=some, how=up_to(3))
    def act(self, pick: int, how: int) -> None:
        self._do("act", pick, how)

    @rule(pick=some, twice=up_to(2))
    def hear(self, pick: int, twice: int) -> None:
        self._do("hear", pick, twice)

    @rule(kind=up_to(1), pick=some)
    def on_it_goes(self, kind: int, pick: int) -> None:
        """What mostly happens: seen, folded, done, heard."""
        self._do("see", kind, 3)
        self._do("fold", 3)
        self._do("act", pick, 0)
        self._do("hear", pick, 0)

    @rule(pick=some)
    def on_it_goes_all_the_way(self, pick: int) -> None:
        for _ in range(3):
            self._do("see", 0, 3)
            self._do("see", 1, 3)
            self._do("fold", 3)
            self._do("act", pick, 0)
        self._do("hear", pick, 0)

    def teardown(self) -> None:
        if hasattr(self, "rough"):
            with Kept(self.begun, self.steps):
                whole(self.rough)


class Kept:
    """Tells a program that fails as an entry of kept_programs.json."""

    def __init__(self, begun: dict[str, Any], steps: list[list[Any]]) -> None:
        self.entry = {"found": "", "begin": begun, "steps": steps}

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, AssertionError | LookupError | ValueError):
            error.add_note(f"to be kept: {json.dumps(self.entry)}")


@pytest.mark.timeout(max(120, PROGRAMS))
@pytest.mark.parity("B18")
def test_whatever_happens_in_whatever_order() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=PROGRAMS,
            stateful_step_count=50,
            derandomize="GATELOG_TEST_PROGRAMS" not in os.environ,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
