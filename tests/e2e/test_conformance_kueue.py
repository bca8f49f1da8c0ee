"""The conformance scenarios in kueue mode: Kueue's core admits the Workloads that gatelog writes.

Against the stand-in and its own core by default; against a real cluster when
GATELOG_TEST_KUEUE_KUBECONFIG names one that runs Kueue without its pod integration.
"""

import json
import os

import pytest

from tests.e2e.conformance import SCENARIOS, verdicts
from tests.parity.scenarios import params

pytestmark = [
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
    pytest.mark.slow("every scenario once more, in kueue mode"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    real = os.environ.get("GATELOG_TEST_KUEUE_KUBECONFIG", "")
    return verdicts(tmp_path_factory.mktemp("conformance-kueue"), "kueue", real)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scenario", params(SCENARIOS))
def test_scenario(scenario: str, found: dict[str, str]) -> None:
    verdict = found.get(scenario, f"no verdict: {json.dumps(found)}")
    assert verdict.startswith("passed"), verdict
