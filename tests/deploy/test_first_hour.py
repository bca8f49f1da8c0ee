"""The page of the first hour: what it has people paste is there, and does what it says."""

import re
import subprocess

import pytest
import yaml
from jsonschema import Draft202012Validator

from podgroup.model.names import GROUP_NAME, GROUP_TOTAL_COUNT, QUEUE_NAME
from tests.deploy.manifests import DEPLOY

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

ROOT = DEPLOY.parent
PAGE = (ROOT / "docs" / "first-hour.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_block_is_shell_and_names_files_that_are_there() -> None:
    assert len(BLOCKS) >= 5
    for block in BLOCKS:
        done = subprocess.run(
            ["sh", "-n"], input=block, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    for name in re.findall(r"deploy/[\w./-]+", " ".join(BLOCKS)):
        assert (ROOT / name).exists(), name


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
