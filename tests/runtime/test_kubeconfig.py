"""Logging in with a kubeconfig loads what reads kubeconfigs, and none of the library's models."""

import json
import subprocess
import sys
from pathlib import Path

CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}
LOG_IN = """
import asyncio, json, sys
{first}
from runtime import kube_login
from runtime.settings import KubernetesSettings

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

async def main():
    before = resident_mb()
    for _ in range(2):  # a login is replaced when a token ends
        login = await kube_login.log_in(KubernetesSettings(kubeconfig=sys.argv[1]), "test")
        headers = await login.headers()
        await login.retire()
    grown = resident_mb() - before
    models = [name for name in sys.modules if name.startswith("kubernetes_asyncio.client.models")]
    print(json.dumps([headers, grown, len(models)]))

asyncio.run(main())
import kubernetes_asyncio
assert kubernetes_asyncio.client.V1Pod and kubernetes_asyncio.config.load_kube_config
"""


def logged_in(tmp_path: Path, first: str = "") -> tuple[dict[str, str], float, int]:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(CONFIG))
    done = subprocess.run(
        [sys.executable, "-c", LOG_IN.format(first=first), str(file)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    headers, grown, models = json.loads(done.stdout)
    return headers, grown, models


def test_no_model_is_loaded_and_the_library_is_whole_for_others(tmp_path: Path) -> None:
    headers, grown_mb, models = logged_in(tmp_path)
    assert headers == {"Authorization": "Bearer t"}
    assert models == 0
    assert grown_mb < 15, "3 MB; with the models 39"


def test_a_library_that_is_there_is_used(tmp_path: Path) -> None:
    headers, _, models = logged_in(tmp_path, "import kubernetes_asyncio")
    assert headers == {"Authorization": "Bearer t"} and models > 100
