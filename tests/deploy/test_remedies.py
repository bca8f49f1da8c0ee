"""What gatelog tells an operator to type is there to be typed: objects, names, kinds, namespace.

Invariant: no remedy applies a directory of this repository, which would turn images and settings.
"""

import re
import subprocess
from itertools import product

import pytest

from gatelog.readmodel import standstill
from gatelog.shell.remedies import REMEDIES, UNKNOWN, Installation, commands, remedy
from tests.deploy.manifests import DEPLOY, objects

HELM = "`helm -n queueing get manifest gl | kubectl apply --server-side --force-conflicts"
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
