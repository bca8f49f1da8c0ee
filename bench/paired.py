"""`python -m bench.paired [COMMIT]`: the cost of deciding in this tree and in another version.

Theory. Two runs one after the other differ by more than a change does, because a machine is never
as busy twice. So a process of each version makes the same logs, and then they fold them by turns:
other work of the machine meets both alike. The figure is the median of the turns' ratios, of
processor time. The other version is COMMIT, else the last landed version: where this commit left
origin/main or main, or the commit before.

Each version measures itself by its own `bench.core`, on this interpreter and its libraries.

Invariant: it never fails a build: it reports a ratio above `WARN`, and a missing or broken other
version.
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.core import LOAD_BYTES

ROOT = Path(__file__).parent.parent
TURNS = 7
WARN = 1.1
_CHILD = """
import gc, sys, time
from bench.core import Story, _fold
stories = [Story(groups, size, message_bytes=most) for _, groups, size, most in eval(sys.argv[1])]
for story in stories:
    _fold(story)
print(flush=True)
for line in sys.stdin:
    story = stories[int(line)]
    gc.collect()
    begin = time.process_time()
    _fold(story)
    print((time.process_time() - begin) / story.events * 1e6, flush=True)
"""


class Log(NamedTuple):
    """A log of `groups` groups of `size` pods, in messages of at most so many bytes (0: alone)."""

    name: str
    groups: int
    size: int
    message_bytes: int


LOGS = (
    Log("groups of 10, one event a message", 60, 10, 0),
    Log("single pods, one event a message", 240, 1, 0),
    Log("groups of 10, under load", 60, 10, LOAD_BYTES),
)


class Turn(NamedTuple):
    """One fold of a log by both versions, microseconds of processor time per event."""

    before_us: float
    now_us: float


def by_turns(before: Path, logs: Sequence[Log] = LOGS, turns: int = TURNS) -> list[list[Turn]]:
    """Fold logs in the tree `before` and in this tree; return the turns of each log.

    Raises `ValueError` if a version cannot be measured in this way.
    """
    children = [_child(tree, logs) for tree in (before, ROOT)]
    try:
        for child in children:
            _answer(child)
        return [
            [Turn(*(_asked(child, place) for child in children)) for _ in range(turns)]
            for place in range(len(logs))
        ]
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _child(tree: Path, logs: Sequence[Log]) -> "subprocess.Popen[str]":
    plain = [tuple(log) for log in logs]
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD, repr(plain)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _asked(child: "subprocess.Popen[str]", place: int) -> float:
    assert child.stdin is not None
    child.stdin.write(f"{place}\n")
    child.stdin.flush()
    return float(_answer(child))


def _answer(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    assert child.stderr is not None
    line = child.stdout.readline()
    if not line:
        why = child.stderr.read().strip().splitlines()
        raise ValueError(why[-1] if why else f"it ended with {child.wait()}")
    return line


def other_version(repository: Path, named: str = "") -> str:
    """Return the commit that a tree is compared with, "" if there is none."""
    here = _git(repository, "rev-parse", "--verify", "--quiet", "HEAD")
    if named:
        return _git(repository, "rev-parse", "--verify", "--quiet", f"{named}^{{commit}}")
    for main in ("origin/main", "main"):
        left = _git(repository, "merge-base", "HEAD", main)
        if left and left != here:
            return left
    return _git(repository, "rev-parse", "--verify", "--quiet", "HEAD~1")


def _git(repository: Path, *words: str) -> str:
    command = ["git", "-C", str(repository), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _unpacked(commit: str, place: Path) -> None:
    packed = subprocess.run(
        ["git", "-C", ROOT, "archive", commit], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")


def said(log: Log, turns: Sequence[Turn]) -> str:
    """Say how a log went, with a warning if it is much dearer than before."""
    ratios = sorted(turn.now_us / turn.before_us for turn in turns)
    before, now = (median(one) for one in zip(*turns, strict=True))
    line = (
        f"  {log.name}: {before:.1f} us an event before, {now:.1f} now, "
        f"{median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )
    return f"{line}\n  WARNING: dearer by more than a tenth" if median(ratios) > WARN else line


def main() -> int:
    """Measure and print; always return 0."""
    commit = other_version(ROOT, *sys.argv[1:2])
    if not commit:
        print("bench: no other version to compare with (a shallow clone?)")
        return 0
    if not _git(ROOT, "diff", "--stat", commit, "--", "podgroup"):
        print(f"bench: nothing of podgroup differs from {commit[:9]}")
        return 0
    with tempfile.TemporaryDirectory() as place:
        _unpacked(commit, Path(place))
        try:
            found = by_turns(Path(place))
        except ValueError as why:
            print(f"bench: {commit[:9]} cannot be measured beside this tree: {why}")
            return 0
    print(f"bench: {commit[:9]} and this tree by turns, load {os.getloadavg()[0]:.1f}")
    for log, turns in zip(LOGS, found, strict=True):
        print(said(log, turns))
    return 0


if __name__ == "__main__":
    sys.exit(main())
