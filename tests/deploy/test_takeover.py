"""A cluster that `gatelog up --install policy` set up is taken over by helm (D3).

Only on a real API server (`GATELOG_TEST_KUBECONFIG`): who owns which field is what matters here.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatelog.cluster import install
from runtime.kube import connect
from runtime.settings import KubernetesSettings, Settings
from tests.deploy import helm
from tests.support import realcluster
from tests.support.processes import Api, server_of

pytestmark = [
    pytest.mark.skipif(realcluster.kubeconfig() is None, reason="it takes a real API server"),
    pytest.mark.skipif(helm.helm() is None, reason="no helm for this machine"),
    pytest.mark.slow("it installs the chart"),
]
RELEASE = "takeover"


@pytest.fixture
async def installed() -> AsyncIterator[Path]:
    """The kubeconfig of a cluster with kinds, policies and fence of `gatelog up --install`."""
    file = realcluster.kubeconfig()
    assert file is not None
    api = Api(*server_of(file))
    await realcluster.forget_admission(api)
    settings = Settings(kubernetes=KubernetesSettings(kubeconfig=str(file)))
    kube = await connect(settings.kubernetes)
    try:
        await install.install_kinds(kube)
        await install.install_policy(kube, await install.as_ourselves(kube, settings))
        yield file
    finally:
        await kube.close()
        _helm("uninstall", file, "--no-hooks")
        await realcluster.forget_admission(api)
        await api.http.close()


def _helm(command: str, file: Path, *more: str) -> tuple[int, str]:
    where = ("-n", realcluster.NAMESPACE, "--kubeconfig", str(file))
    chart = (str(helm.CHART), "--create-namespace") if command == "install" else ()
    done = helm.run(command, RELEASE, *chart, *where, *more)
    return done.returncode, done.stdout + done.stderr


async def test_helm_takes_a_cluster_over_as_documented(installed: Path) -> None:
    # What is forced is the account of the actuator, and nothing that the API server filled in.
    assert all("not-gatelog-itself" in field for field in await _conflicts(installed))
    code, said = _helm("install", installed, "--take-ownership")
    assert code != 0 and "conflict with" in said, said
    _helm("uninstall", installed, "--no-hooks")
    code, said = _helm("install", installed, "--take-ownership", "--force-conflicts")
    assert code == 0, said


async def _conflicts(file: Path) -> list[str]:
    """Return the fields of all policies of the chart that a server-side apply would conflict on."""
    api = Api(*server_of(file))
    fields: list[str] = []
    for obj in helm.rendered():
        if obj["kind"].endswith("AdmissionPolicy"):
            path = f"{install.path_of(obj)}?fieldManager=helm&dryRun=All"
            answer = await api.call("PATCH", path, obj, kind=realcluster.APPLY, ok=())
            causes = (answer.get("details") or {}).get("causes") or ()
            fields += [one["field"] for one in causes]
    await api.http.close()
    assert fields, "nothing is to be forced: say so in docs/upgrade.md"
    return fields
