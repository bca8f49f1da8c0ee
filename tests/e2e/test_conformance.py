"""The conformance scenarios, by their own harness, against `gatelog up` as a process.

Against the stand-in by default; against any real cluster when GATELOG_TEST_KUBECONFIG names one
(with a pod scheduler and garbage collection, but no kubelet for the nodes used: the harness plays
it). The harness and its expectations are in tests/conformance, unchanged.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.processes import GATELOG, PYTHON, Child, Simulator

CONFORMANCE = Path(__file__).parents[1] / "conformance"
SCENARIOS = sorted(p.stem for p in (CONFORMANCE / "expected").glob("*.json"))
READY = r"(?i)ready"


def server_of(kubeconfig: Path) -> tuple[str, str]:
    """The server and bearer token of a kubeconfig's first cluster and user."""
    found = yaml.safe_load(kubeconfig.read_text())
    return found["clusters"][0]["cluster"]["server"], found["users"][0]["user"]["token"]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("conformance")
    real = os.environ.get("GATELOG_TEST_KUBECONFIG", "")
    simulator = None
    if real:
        kubeconfig = Path(real)
    else:
        simulator = Simulator(folder, "--kubelet", "off")
        simulator.start()
        kubeconfig = simulator.kubeconfig
    up = Child(
        "up",
        [GATELOG, "up", "--install", "webhook"],
        {
            "KUBECONFIG": str(kubeconfig),
            "GATELOG_STATE_DIR": str(folder / "state"),
            "GATELOG_WEBHOOK_PORT": "0",
        },
        folder,
    )
    up.start()
    try:
        up.wait_for(READY, 60)
        server, token = server_of(kubeconfig)
        out = folder / "out"
        done = subprocess.run(
            [
                PYTHON,
                "lab.py",
                "--server",
                server,
                "--token",
                token,
                "--expect",
                "expected",
                "--out",
                str(out),
                "--parallel",
                "6",
                "--only",
                *SCENARIOS,
            ],
            cwd=CONFORMANCE,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        print(done.stdout, done.stderr, up.tail(), sep="\n")
        return _verdicts(done.stdout)
    finally:
        up.stop()
        if simulator is not None:
            simulator.stop()


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


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str, verdicts: dict[str, str]) -> None:
    verdict = verdicts.get(scenario, f"no verdict: {json.dumps(verdicts)}")
    assert verdict.startswith("passed"), verdict
