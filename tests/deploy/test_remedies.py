"""What gatelog tells an operator to type is there to be typed: objects, names, kinds, namespace.

Invariant: no remedy applies a directory of this repository, which would turn images and settings.
"""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product

import msgspec
import psycopg
import pytest

from gatelog.cluster.installation import described
from gatelog.readmodel import standstill
from gatelog.shell.remedies import REMEDIES, UNKNOWN, Installation, commands, here, remedy
from runtime.settings import LeaseSettings, NatsSettings, Settings
from tests.deploy import helm
from tests.deploy.manifests import DEPLOY, objects, parsed

HELM = "`helm -n queueing get manifest gl | kubectl annotate --local -f - -o yaml meta.helm.sh/"
INSTALLED = {
    "production": [*objects(DEPLOY / "base"), *objects(DEPLOY / "components" / "nats")],
    "standalone": objects(DEPLOY / "standalone"),
}
KINDS = {"deployment": "Deployment", "statefulset": "StatefulSet"}
_TYPED = re.compile(
    r"kubectl -n queueing (?:rollout restart|scale|delete|exec|get|edit|logs) "
    r"(?!job -l|secret SECRET)(?:(deployment|statefulset|pod|pvc)[ /])?"
    r"([a-z][a-z0-9-]*)(?: (gatelog-[a-z]+))?"
)


@pytest.mark.parametrize("profile", sorted(INSTALLED))
def test_each_command_names_what_that_installation_has(profile: str) -> None:
    names = {(one["kind"], one["metadata"]["name"]) for one in INSTALLED[profile]}
    sets = {name for kind, name in names if kind == "StatefulSet"}
    typed = 0
    at = Installation(how="helm", profile=profile, namespace="queueing", release="gl")  # type: ignore[arg-type]
    for cause, part in product(REMEDIES, standstill.PARTS):
        said = remedy(cause, at, part)
        assert not re.search(r"\{[a-z]+\}", said), said
        for kind, name, more in _TYPED.findall(said):
            typed += 1
            for one in filter(None, (name, more)):
                if kind in KINDS:
                    assert (KINDS[kind], one) in names, said
                else:  # a pod or a volume of a StatefulSet
                    owner = one.removeprefix("data-").removesuffix("-0")
                    assert owner in sets, said
    assert typed > 9


def test_what_is_missing_is_made_again_from_what_was_installed() -> None:
    """`kubectl apply -k deploy/base` turned four images and the settings."""
    helm = Installation(how="helm", namespace="queueing", release="gl")
    problem = "API server: this account may not patch pods"
    assert standstill.remedy_of(problem, helm, "actuator").startswith(HELM)
    assert "helm" not in remedy("rights", Installation(how="kustomize"))
    both = remedy("rights", UNKNOWN)
    assert "installed by helm: " in both and "installed by kustomize: " in both
    for cause in REMEDIES:
        for at in (UNKNOWN, helm, Installation(how="up"), Installation(profile="standalone")):
            said = remedy(cause, at, "ingest")
            assert "deploy/" not in said.replace("deploy/gatelog", ""), "who has the wheel lacks it"


@pytest.mark.parametrize("profile", sorted(INSTALLED))
def test_what_is_left_of_an_installation_says_how_it_was_made(profile: str) -> None:
    """With its one StatefulSet deleted nothing was known of it, and doctor had no remedy."""
    made = helm.rendered({"profile": profile}, namespace="queueing", release="gl")
    notes = {"meta.helm.sh/release-name": "gl", "meta.helm.sh/release-namespace": "queueing"}
    for one in made:
        one["metadata"]["annotations"] = (one["metadata"].get("annotations") or {}) | notes
    parts = [one for one in made if one["kind"] in ("Deployment", "StatefulSet")]
    accounts = [one for one in made if one["kind"] == "ServiceAccount"]
    wanted = Installation("helm", profile, "queueing", "gl")  # type: ignore[arg-type]
    assert described(accounts) == wanted
    for part in parts:
        rest = [one for one in parts if one is not part]
        found = described(rest or accounts)
        name = part["metadata"]["name"]
        runs = "" if name in ("gatelog", "gatelog-projector") else "deploy/gatelog-projector"
        assert found == msgspec.structs.replace(wanted, pod=runs), name
    assert described([]) is UNKNOWN


@pytest.mark.skipif(
    helm.helm() is None or helm.kubectl() is None, reason="no helm or kubectl for this machine"
)
def test_what_helm_made_stays_its_release() -> None:
    """Helm's manifest lacks Helm's annotations: applied as it is, it took them off each object, and
    doctor said of the release from then on that kustomize had made it.
    """
    at = Installation(how="helm", namespace="queueing", release="gl")
    (line,) = commands(remedy("rights", at))
    read, *annotated, applied = line.split(" | ")
    assert read == "helm -n queueing get manifest gl" and applied.startswith("kubectl apply ")
    made = helm.run("template", "gl", str(helm.CHART), "-n", "queueing", "--kube-version", "1.36.0")
    tool, _, words = annotated[0].partition(" ")
    assert tool == "kubectl" and len(annotated) == 1
    done = subprocess.run(
        [str(helm.kubectl()), *words.split()],
        input=made.stdout,
        check=True,
        capture_output=True,
        text=True,
    )
    found = parsed(done.stdout)
    assert len(found) == len(parsed(made.stdout)) > 20
    owners = described([one for one in found if one["kind"] == "StatefulSet"])
    assert (owners.how, owners.release, owners.namespace) == ("helm", "gl", "queueing")
    for one in found:
        assert one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm", one


@pytest.mark.parametrize(
    ("profile", "part"), [("standalone", "standalone"), ("production", "projector")]
)
def test_a_part_knows_its_release(profile: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its account may not look at deployments: doctor printed there another release's name."""
    made = helm.rendered({"profile": profile}, namespace="queueing", release="gl")
    (container,) = (
        one["spec"]["template"]["spec"]["containers"][0]
        for one in made
        if one["kind"] in ("Deployment", "StatefulSet")
        and one["metadata"]["labels"]["app.kubernetes.io/component"] == part
    )
    environment = {e["name"]: e["value"] for e in container["env"] if "value" in e}
    for name, value in environment.items() | {("KUBERNETES_SERVICE_HOST", "10.0.0.1")}:
        monkeypatch.setenv(name, value)
    nats = NatsSettings(url="nats://nats:4222" if profile == "production" else "")
    at = here(Settings(nats=nats, lease=LeaseSettings(namespace="queueing")))
    assert commands(remedy("rights", at))[0].startswith("helm -n queueing get manifest gl |")


@pytest.mark.parametrize("profile", sorted(INSTALLED))
def test_what_is_made_again_says_how_many_replicas_there_are(profile: str) -> None:
    """A number in a remedy would be another than the values', and its field another's: the next
    `helm upgrade` of Helm 4 that changes it is refused as a conflict.
    """
    for one in INSTALLED[profile]:
        if one["kind"] in ("Deployment", "StatefulSet"):
            assert one["spec"]["replicas"] >= 1, one["metadata"]["name"]
    at = Installation(how="helm", profile=profile)  # type: ignore[arg-type]
    assert "--replicas" not in " ".join(remedy(cause, at, "ingest") for cause in REMEDIES)


def test_each_command_stands_in_backquotes_and_is_shell() -> None:
    places: list[Installation] = [UNKNOWN, Installation(how="up")]
    places += [Installation(how="helm", profile="standalone"), Installation(how="kustomize")]
    for cause, at in product(REMEDIES, places):
        said = remedy(cause, at, "ingest")
        assert said.count("`") % 2 == 0, said
        outside = re.sub(r"`[^`]+`", "", said)
        assert not re.search(r"kubectl|helm -n|--[a-z]+ ", outside.replace("--install ", "")), said
        for line in commands(said):
            done = subprocess.run(["sh", "-nc", line], check=False, capture_output=True, text=True)
            assert done.returncode == 0, f"{line}: {done.stderr}"


def test_every_cause_has_a_way_for_each_installation() -> None:
    for known in REMEDIES.values():
        assert known.up and known.standalone and known.production


def test_the_lock_that_is_named_is_the_one_that_others_wait_for(postgres_database: str) -> None:
    """The statements of the database's remedy, typed: who holds a lock is found, and ended."""
    [both] = re.findall(r"\((SELECT [^?]*)\)\?", remedy("database"))
    found, ended = both.split("; ")
    with (
        closing(psycopg.connect(postgres_database)) as holder,
        psycopg.connect(postgres_database) as waiter,
        psycopg.connect(postgres_database, autocommit=True) as operator,
        ThreadPoolExecutor(1) as pool,
    ):
        holder.execute("CREATE TABLE held (n int)")
        holder.commit()
        assert not operator.execute(found).fetchall()
        holder.execute("LOCK TABLE held")
        waits = pool.submit(waiter.execute, "SELECT count(*) FROM held")
        while not (pids := operator.execute(found).fetchall()):
            assert not waits.done()
        assert pids == [(holder.info.backend_pid,)]
        operator.execute(ended.replace("PID", str(pids[0][0])).encode())
        assert waits.result(timeout=30).fetchone() == (0,)
