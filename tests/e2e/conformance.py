"""Running the conformance lab against `gatelog up` as a process, in either mode.

The lab (tests/conformance) is used unchanged, as a process of its own: it plays users and a kubelet
through HTTP alone. What a scenario left behind is compared by the lab; here its verdicts are read.

Invariant: a scenario without a verdict is a failure, whatever else was printed.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import GATELOG, KUEUE_CORE, PYTHON, Child, Simulator, server_of

CONFORMANCE = Path(__file__).parents[1] / "conformance"
SCENARIOS = sorted(p.stem for p in (CONFORMANCE / "expected").glob("*.json"))
READY = r"(?i)ready"


class Stack:
    """A cluster and gatelog on it."""

    def __init__(self, up: Child, server: str, token: str) -> None:
        self.up = up
        self.server = server
        self.token = token


@contextmanager
def stack(folder: Path, mode: str, real: str = "") -> Iterator[Stack]:
    """`gatelog up` in `mode` on the stand-in cluster, or on the one `real` (a kubeconfig) names."""
    simulator = None
    kubeconfig = Path(real)
    if not real:
        module = KUEUE_CORE if mode == "kueue" else "tests.support.standin"
        simulator = Simulator(folder, "--kubelet", "off", module=module)
        simulator.start()
        kubeconfig = simulator.kubeconfig
    up = Child(
        "up",
        [GATELOG, "up", "--install", "webhook"],
        {
            "KUBECONFIG": str(kubeconfig),
            "GATELOG_MODE": mode,
            "GATELOG_STATE_DIR": str(folder / "state"),
            "GATELOG_WEBHOOK_PORT": "0",
        },
        folder,
    )
    up.start()
    try:
        up.wait_for(READY, 60)
        yield Stack(up, *server_of(kubeconfig))
    finally:
        up.stop()
        if simulator is not None:
            simulator.stop()


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
    where = ["--server", running.server, "--token", running.token]
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
