"""Fixtures of the command line's tests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web

from gatelog import cli
from runtime.kube import KubeClient, connect
from runtime.settings import KubernetesSettings
from simcluster import Settings as SimSettings
from tests.projector.support import Writer, busy_toy
from tests.support.databases import filled
from tests.support.standin import SimCluster
from tests.support.toy import Toy

Ran = tuple[int, str, str]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command remembers of earlier ones is this test's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home-state"))


@pytest.fixture
def gatelog(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Run a command line in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args: str) -> Ran:
        capsys.readouterr()
        code = cli.run(list(args))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture(params=["sqlite", "postgresql"])
def busy_db(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Toy]:
    """A read model of cluster `test` with a bit of everything in namespace `ns`."""
    url = f"sqlite:///{tmp_path}/read-model.sqlite3"
    if request.param == "postgresql":
        url = str(request.getfixturevalue("postgres_database"))
    return filled(url, busy), busy_toy()


def busy(url: str) -> None:
    Writer(url).feed(busy_toy().messages).store.close()


@pytest.fixture
async def bare_cluster(tmp_path: Path) -> AsyncIterator[tuple[SimCluster, KubeClient]]:
    """A cluster without Kueue's kinds, and a client of it."""
    async with SimCluster(SimSettings(kueue_kinds=False)) as cluster:
        file = cluster.kubeconfig(tmp_path / "kubeconfig")
        kube = await connect(KubernetesSettings(kubeconfig=str(file)))
        yield cluster, kube
        await kube.close()


@pytest.fixture
async def distant_server(
    tmp_path: Path,
) -> AsyncIterator[Callable[[str], Awaitable[KubeClient]]]:
    """Makes clients of a server of a version (`1.29`), on an address that is no loopback."""
    async with AsyncExitStack() as stack:

        async def start(version: str) -> KubeClient:
            major, minor = version.split(".")
            said = {"major": major, "minor": f"{minor}+", "gitVersion": f"v{version}.4"}

            async def answer(_: web.Request) -> web.Response:
                return web.json_response(said)

            app = web.Application()
            app.router.add_get("/version", answer)
            runner = web.AppRunner(app)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[0][1]
            file = tmp_path / f"{version}.kubeconfig"
            # 0.0.0.0 leads to this machine, and does not look like loopback.
            file.write_text(
                '{"apiVersion": "v1", "kind": "Config", "current-context": "c", '
                f'"clusters": [{{"name": "c", "cluster": {{"server": "http://0.0.0.0:{port}"}}}}], '
                '"users": [{"name": "u", "user": {"token": "t"}}], '
                '"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}'
            )
            kube = await connect(KubernetesSettings(kubeconfig=str(file)))
            stack.push_async_callback(kube.close)
            return kube

        yield start
