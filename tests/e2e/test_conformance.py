"""The conformance scenarios in builtin mode: our own quota queues admit.

Against the stand-in by default; against any real cluster when GATELOG_TEST_KUBECONFIG names one
(with a pod scheduler and garbage collection, but no kubelet for the nodes used: the harness plays
it).
"""

import json
import os

import pytest

from tests.e2e.conformance import SCENARIOS, verdicts
from tests.parity.scenarios import params

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    real = os.environ.get("GATELOG_TEST_KUBECONFIG", "")
    return verdicts(tmp_path_factory.mktemp("conformance"), "builtin", real)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scenario", params(SCENARIOS))
def test_scenario(scenario: str, found: dict[str, str]) -> None:
    verdict = found.get(scenario, f"no verdict: {json.dumps(found)}")
    assert verdict.startswith("passed"), verdict
