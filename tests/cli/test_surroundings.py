"""State directory, manifests, and how errors are put into words."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatelog.readmodel.rows import GroupRow
from gatelog.shell.errors import CommandFailed, UsageFailed, explain
from gatelog.shell.statedir import StateDir, StateDirInUse
from podgroup.model.wording import NOT_SELECTED, UNAVAILABLE
from runtime import manifests
from runtime.jetstream import LoginRefused
from runtime.kube_errors import KubeUnavailable
from runtime.settings import SettingsError

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

HOLD = (
    "import sys, time\n"
    "from gatelog.shell.statedir import StateDir\n"
    "with StateDir(sys.argv[1]).hold():\n"
    "    print('held', flush=True)\n"
    "    time.sleep(60)\n"
)


def test_one_process_holds_a_state_directory_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state.path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        refused = pytest.raises(StateDirInUse, match=f"process {holder.pid}.*--state-dir")
        with refused, state.hold():
            pass
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
    with state.hold():
        assert state.holder() == os.getpid()
    assert state.holder() is None


def test_the_state_directory_is_private_and_stays_out_of_repositories(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    with state.hold():
        assert state.path.stat().st_mode & 0o077 == 0
        assert (state.path / ".gitignore").read_text() == "*\n"


def test_a_state_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = pytest.raises(CommandFailed, match=r"cannot use the state directory.*--state-dir")
    with refused, StateDir(tmp_path / "file" / "below").hold():
        pass


def test_manifests_are_found_and_are_objects() -> None:
    crds = [o for o in manifests.read("crds") if o["kind"] == "CustomResourceDefinition"]
    names = {o["spec"]["names"]["plural"] for o in crds}
    assert names >= {"workloads", "localqueues", "clusterqueues", "resourceflavors"}
    with pytest.raises(manifests.ManifestError, match="deploy/nothing"):
        manifests.read("nothing")


def test_of_several_errors_the_one_we_know_speaks() -> None:
    group = BaseExceptionGroup(
        "g", [ValueError("odd"), BaseExceptionGroup("h", [KubeUnavailable("no answer")])]
    )
    said = explain(group)
    assert (said.sentence, said.exit_code, said.known) == ("no answer", 1, True)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageFailed("a\nb"), 2, "a b"),
        (SettingsError("x = 1: must be 2"), 2, "x = 1: must be 2"),
        (LoginRefused("nats: wrong password"), 2, "wrong password"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (PermissionError(13, "Permission denied", "/x"), 1, "/x: Permission denied"),
        (ModuleNotFoundError("n", name="sqlalchemy.orm"), 1, "gatelog[projector]"),
        (ModuleNotFoundError("n", name="gatelog.demo"), 1, "`make demo` in a checkout"),
        (ZeroDivisionError("division by zero"), 1, "--debug"),
        (ValueError(), 1, "unexpected ValueError: no message"),
    ],
)
def test_every_error_is_one_sentence(error: BaseException, code: int, words: str) -> None:
    said = explain(error)
    assert said.exit_code == code
    assert words in said.sentence and "\n" not in said.sentence


def test_every_reason_that_only_a_person_can_end_has_a_remedy() -> None:
    from gatelog.readmodel.advice import remedy
    from podgroup.model.reasons import FIELDS, OTHERWISE, REASONS

    words = [reason.word for reason in REASONS]
    assert len(words) == len(set(words))
    for reason in REASONS:
        assert reason.advice and OTHERWISE not in reason.advice, reason.word
        assert reason.advice.format_map(FIELDS)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    made: Any = {f.name: _blank(f.type, at) for f in msgspec.structs.fields(GroupRow) if f.required}
    row = GroupRow(**made)
    for reason in REASONS:
        told = remedy(msgspec.structs.replace(row, wait_reason=reason.word))
        assert told and "{" not in told.replace('{"spec":{"active":true}}', ""), reason.word
    assert remedy(msgspec.structs.replace(row, wait_reason="Invented")) == OTHERWISE
    queued = msgspec.structs.replace(row, cluster_queue="a", namespace="team", queue="q")
    for message, told in (
        (NOT_SELECTED, "ClusterQueue a selects namespace team: without one it selects none"),
        (f"pod set main: resource cpu {UNAVAILABLE}", "spec.resourceGroups of ClusterQueue a"),
    ):
        waits = msgspec.structs.replace(queued, wait_reason="Misconfigured", wait_message=message)
        assert told in remedy(waits)


def _blank(kind: object, at: datetime) -> object:
    return {str: "", int: 0, bool: False, datetime: at}.get(kind)  # type: ignore[call-overload]
