"""The service account of a pod, read from its files."""

import subprocess
import sys
from pathlib import Path

import pytest

from runtime.kube_errors import KubeError
from runtime.kube_incluster import InCluster
from runtime.kube_login import Login
from runtime.settings import KubernetesSettings
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("a certificate")
    return tmp_path


async def test_a_pod_logs_in_with_its_files(account: Path):
    found = InCluster(account, POD)
    assert found.host == "https://10.0.0.1:443"
    assert await found.get_api_key_with_prefix("BearerToken") == "Bearer first"
    (account / "token").write_text("second")
    found._read_at -= 61
    assert await found.get_api_key_with_prefix("BearerToken") == "Bearer second"
    six = InCluster(account, {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert six.host == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_what_is_missing_is_named(account: Path, missing: str):
    (account / missing).unlink()
    with pytest.raises(KubeError, match=missing):
        InCluster(account, POD)


def test_an_empty_token_and_no_pod(account: Path):
    (account / "token").write_text(" \n")
    with pytest.raises(KubeError, match="empty"):
        InCluster(account, POD)
    with pytest.raises(KubeError, match="pods only"):
        InCluster(account, {})


def test_a_pod_does_not_pay_for_the_client_library(account: Path):
    code = (
        "import asyncio, sys\n"
        "from runtime import kube_login\n"
        "from runtime.settings import KubernetesSettings\n"
        "async def main():\n"
        "    try:\n"
        "        await kube_login.log_in(KubernetesSettings(), 'x')\n"
        "    except Exception as error:\n"
        "        print(error)\n"
        "asyncio.run(main())\n"
        "print('kubernetes_asyncio' in sys.modules)\n"
    )
    environment = {**POD, "PATH": "", "HOME": str(account)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said, imported = done.stdout.strip().splitlines()
    assert "/var/run/secrets/kubernetes.io/serviceaccount/token" in said
    assert imported == "False"


async def test_the_files_open_a_server_that_they_verify(tmp_path: Path):
    async with SimCluster(front_proxy=True) as cluster:
        assert cluster.authority is not None
        (tmp_path / "ca.crt").write_bytes(cluster.authority.read_bytes())
        (tmp_path / "token").write_text(cluster.token)
        host, _, port = cluster.url.removeprefix("https://").partition(":")
        where = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        login = Login(InCluster(tmp_path, where), KubernetesSettings(), "test")
        headers = await login.headers()
        async with login.session.get(f"{login.server}/api/v1/pods", headers=headers) as answer:
            assert answer.status == 200
        async with login.session.get(f"{login.server}/api/v1/pods") as answer:
            assert answer.status == 401
        await login.retire()
