"""A command without a read model here: put to the installation that the kubeconfig names."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from gatelog import cli
from gatelog.cluster.installation import described
from gatelog.commands.elsewhere import _fed, translated
from gatelog.shell.named import by_kubeconfig
from gatelog.shell.statedir import StateDir
from tests.projector.support import Writer, busy_toy
from tests.serve.conftest import World
from tests.support.databases import migrated

Ask = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run a command line in a directory where `gatelog up` once ran against another cluster."""
    state = StateDir(tmp_path / "once" / ".gatelog")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "notes"))
    monkeypatch.setenv("COLUMNS", "140")
    with state.hold():
        url = f"sqlite:///{state.model}"
        migrated(url)
        writer = Writer(url)
        writer.feed(busy_toy().messages)
        writer.store.close()
        state.remember("https://another.example 0123456789abcdef")
    monkeypatch.chdir(state.path.parent)

    async def run(*args: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(cli.run, list(args))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


async def test_another_clusters_file_is_never_read(
    world: World, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answered "nothing is parked" of a laptop, with the kubeconfig at production."""
    monkeypatch.setenv("KUBECONFIG", str(world.kubeconfig()))
    code, out, err = await ask("parked", "list")
    assert (code, out) == (1, "")
    assert world.cluster.url in err and "another.example" in err
    for way in ("--state-dir DIR", "--db URL", "KUBECONFIG"):
        assert way in err
    code, out, err = await ask("why", "ns/c")
    assert code == 0 and "WaitingForQuota" in out, "the aggregated API answers"
    code, out, _ = await ask("why", "--json")
    assert code == 0 and '"PodGroup"' in out
    code, out, _ = await ask("history", "ns/a")
    assert code == 0 and "admit: fits the quota" in out


async def test_of_the_kubeconfigs_own_cluster_it_is_read(
    world: World, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(world.kubeconfig()))
    named = by_kubeconfig()
    assert named is not None
    StateDir(".gatelog").remember(named.identity)
    query = ("sql", "SELECT 1 AS one", "--json")
    assert await ask(*query) == (0, '[{"one":1}]\n', "")
    StateDir(".gatelog").remember(f"{world.cluster.url} made anew")
    code, out, _ = await ask(*query)
    assert (code, out) == (1, ""), "a cluster that was made anew at the address"


async def test_the_cluster_that_the_line_names_is_asked(
    world: World, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what is said where no cluster answers has it: the current context is another."""
    both = yaml.safe_load(world.kubeconfig().read_text())
    name = both["contexts"][0]["name"]
    away = {"cluster": "away", "user": both["contexts"][0]["context"]["user"]}
    both["contexts"].append({"name": "away", "context": away})
    both["clusters"].append({"name": "away", "cluster": {"server": "http://127.0.0.1:9"}})
    both["current-context"] = "away"
    file = tmp_path / "both"
    file.write_text(yaml.safe_dump(both))
    monkeypatch.setenv("KUBECONFIG", str(file))
    code, _, err = await ask("why", "ns/c")
    assert code == 1 and "KUBECONFIG or --set kubernetes.context=NAME" in err
    code, out, err = await ask("why", "ns/c", "--set", f"kubernetes.context={name}")
    assert code == 0 and "WaitingForQuota" in out, err
    settings = tmp_path / "gatelog.toml"
    settings.write_text(f"[kubernetes]\ncontext = {json.dumps(name)}\n")
    code, out, err = await ask("history", "ns/a", "--config", str(settings))
    assert code == 0 and "admit: fits the quota" in out, err
    await installed(world)
    code, out, err = await ask("parked", "list", f"--set=kubernetes.context={name}")
    line = f"kubectl --context {name} -n queueing exec deploy/gatelog-projector"
    assert code == 1 and f"\n  {line} -- gatelog parked list\n" in err


async def installed(world: World) -> None:
    """Put gatelog's Deployment into namespace `queueing`."""
    labels = {"app.kubernetes.io/name": "gatelog", "app.kubernetes.io/component": "projector"}
    meta = {"name": "gatelog-projector", "labels": labels, "namespace": "queueing"}
    spec = {"replicas": 2, "selector": {}, "template": {"metadata": {}}}
    client = world.client()
    await client.request("POST", "/api/v1/namespaces", {"metadata": {"name": "queueing"}})
    await client.request(
        "POST",
        "/apis/apps/v1/namespaces/queueing/deployments",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec},
    )


async def test_what_the_api_does_not_tell_is_asked_in_a_pod_that_is_named(
    world: World, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(world.kubeconfig()))
    await installed(world)
    code, out, err = await ask("parked", "list", "-n", "team a")
    assert (code, out) == (1, "")
    line = "kubectl -n queueing exec deploy/gatelog-projector -- gatelog parked list -n 'team a'"
    assert f"\n  {line}\n" in err


async def test_a_cluster_that_does_not_answer_is_named(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        "users: [{name: u, user: {}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]}"
    )
    monkeypatch.setenv("KUBECONFIG", str(file))
    code, _, err = await ask("epochs")
    assert code == 1 and "http://127.0.0.1:9" in err and "does not answer" in err
    assert "--state-dir DIR" in err


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("why", "why -A"),
        ("why team-a", "why -n team-a"),
        ("why team-a/train", "why team-a/train"),
        ("why train -n team-a --json", "why train -n team-a -o json"),
        ("why -A --output=wide", "why -o wide -A"),
        ("history train --namespace team-a", "history train -n team-a"),
        ("history a/b --all", None),
        ("why --watch", None),
        ("try -f job.yaml", "try -f job.yaml -n default"),
        ("try --filename=job.yaml --namespace team-a --json", "try -f job.yaml -n team-a -o json"),
        ("try -f job.yaml --at 1h", None),
        ("parked", None),
    ],
)
def test_a_command_line_is_put_as_the_plugin_takes_it(typed: str, asked: str | None) -> None:
    found = translated(typed.split())
    assert (None if found is None else " ".join(found)) == asked


def test_a_file_is_fed_to_the_pod_that_answers() -> None:
    """What is on this machine is not there."""
    asked = ["try", "-f", "a job.yaml", "--at", "1h"]
    assert _fed(asked) == (["try", "-f", "-", "--at", "1h"], " < 'a job.yaml'")
    assert _fed(["try", "-f", "-"]) == (["try", "-f", "-"], "")
    assert _fed(["why", "-f", "x"]) == (["why", "-f", "x"], "")


def test_how_it_was_installed_is_read_from_its_objects() -> None:
    def obj(part: str, **notes: str) -> dict[str, object]:
        meta = {"name": f"gatelog-{part}", "namespace": "ns", "annotations": notes}
        return {"metadata": {**meta, "labels": {"app.kubernetes.io/component": part}}}

    released = {"meta.helm.sh/release-name": "queueing", "meta.helm.sh/release-namespace": "ns"}
    helm = described([obj("ingest", **released), obj("projector", **released)])
    assert (helm.how, helm.profile, helm.release) == ("helm", "production", "queueing")
    assert helm.pod == "deploy/gatelog-projector"
    alone = described([obj("standalone")])
    assert (alone.how, alone.profile, alone.pod) == (
        "kustomize",
        "standalone",
        "gatelog-standalone-0",
    )
    assert described([obj("serve")]).run("gatelog why") == ""
