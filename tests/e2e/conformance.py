"""Running the conformance lab against `gatelog up` as a process, in either mode.

The lab (tests/conformance) is used unchanged, as a process of its own: it plays users and a kubelet
through HTTP alone. What a scenario left behind is compared by the lab; here its verdicts are read.

Invariant: a scenario without a verdict is a failure, whatever else was printed.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.forking import PYTHON
from tests.support.processes import KUEUE_CORE
from tests.support.stack import Stack, started

CONFORMANCE = Path(__file__).parents[1] / "conformance"
SCENARIOS = sorted(p.stem for p in (CONFORMANCE / "expected").glob("*.json"))


@contextmanager
def stack(folder: Path, mode: str, real: str = "") -> Iterator[Stack]:
    """`gatelog up` in `mode` on the stand-in cluster, or on the one `real` (a kubeconfig) names."""
    module = KUEUE_CORE if mode == "kueue" else "tests.support.standin"
    # The lab plays the kubelet.
    found = Stack(folder, "--kubelet", "off", module=module, real=Path(real) if real else None)
    found.up.env["GATELOG_MODE"] = mode
    with started(found):
        yield found


def verdicts(folder: Path, mode: str, real: str = "") -> dict[str, str]:
    """Run all scenarios; their verdicts by name.

    Six at once, as their time limits allow; what fails is run once more by itself, since the
    recorded outcome is that of a cluster with nothing else to do. Twice is a failure.
    """
    with stack(folder, mode, real) as running:
        found = _play(running, folder / "out", SCENARIOS)
        failed = [name for name in SCENARIOS if not found.get(name, "").startswith("passed")]
        if failed:
            found |= _play(running, folder / "again", failed)
        return found


def _play(running: Stack, out: Path, scenarios: Sequence[str]) -> dict[str, str]:
    url, token = running.server
    where = ["--server", url, "--token", token]
    what = ["--expect", "expected", "--out", str(out), "--parallel", "6", "--only"]
    done = subprocess.run(
        [PYTHON, "lab.py", *where, *what, *scenarios],
        cwd=CONFORMANCE,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(done.stdout, done.stderr, running.up.tail(), sep="\n")
    return _verdicts(done.stdout)


def _verdicts(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("   ") and name:
            found[name] += "\n" + line
        else:
            name, _, verdict = line.partition(" ")
            found[name] = verdict
    return found
