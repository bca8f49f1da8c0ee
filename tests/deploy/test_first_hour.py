"""The page of the first hour: what it has people paste is there, and does what it says."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from podgroup.names import GROUP_NAME, GROUP_TOTAL_COUNT, QUEUE_NAME
from tests.deploy.manifests import DEPLOY

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

ROOT = DEPLOY.parent
PAGE = (ROOT / "docs" / "first-hour.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_block_is_shell_and_names_files_that_are_there() -> None:
    assert len(BLOCKS) >= 6
    for block in BLOCKS:
        done = subprocess.run(
            ["sh", "-n"], input=block, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    for name in re.findall(r"deploy/[\w./-]+", " ".join(BLOCKS)):
        assert (ROOT / name).exists(), name


def test_the_secrets_are_those_that_the_manifests_mount(tmp_path: Path) -> None:
    made = re.findall(r"create secret generic (\S+)((?:[^\n\\]|\\\n)*)", PAGE)
    files = {
        name: set(re.findall(r"--from-file=(?:[\w.]+=)?my-secrets/(\S+)", t)) for name, t in made
    }
    subprocess.run(
        ["sh", str(DEPLOY / "secrets.sh"), str(tmp_path)], check=True, capture_output=True
    )
    there = {p.name for p in tmp_path.iterdir()}
    assert all(wanted and wanted <= there for wanted in files.values())
    text = "".join(p.read_text() for p in DEPLOY.rglob("*.yaml"))
    for name in files:
        assert f"secretName: {name}" in text
    mounted = set(re.findall(r"\{key: ([\w.-]+), path:", text))
    assert mounted - {"pg_service.conf"} <= files["gatelog-nats"]


def test_the_pods_name_the_queue_and_the_group_needs_all_of_the_quota() -> None:
    queues = list(yaml.safe_load_all((DEPLOY / "examples" / "first-queue.yaml").read_text()))
    pods = list(yaml.safe_load_all((DEPLOY / "examples" / "first-pods.yaml").read_text()))
    for obj in queues:
        plural = f"{obj['kind'].lower()}s.yaml"
        if obj["kind"] == "Namespace":
            continue
        crd = yaml.safe_load((DEPLOY / "crds" / plural).read_text())
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        Draft202012Validator(schema).validate(obj)
    by_kind = {obj["kind"]: obj for obj in queues}
    local = by_kind["LocalQueue"]
    flavor = by_kind["ClusterQueue"]["spec"]["resourceGroups"][0]["flavors"][0]
    quota = {r["name"]: r["nominalQuota"] for r in flavor["resources"]}["cpu"]
    group = [p for p in pods if GROUP_NAME in p["metadata"]["labels"]]
    for pod in pods:
        assert pod["metadata"]["namespace"] == local["metadata"]["namespace"]
        assert pod["metadata"]["labels"][QUEUE_NAME] == local["metadata"]["name"]
    asked = [int(p["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for p in group]
    assert sum(asked) == quota and len(pods) == len(group) + 1
    assert {p["metadata"]["annotations"][GROUP_TOTAL_COUNT] for p in group} == {str(len(group))}
