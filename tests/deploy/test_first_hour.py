"""The page of the first hour: what it has people paste is there, and does what it says."""

import re
import subprocess

import pytest
import yaml
from jsonschema import Draft202012Validator

from podgroup.model.names import GROUP_NAME, GROUP_TOTAL_COUNT, QUEUE_NAME
from podgroup.model.quantities import amount
from tests.deploy.manifests import DEPLOY, of_kind

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

ROOT = DEPLOY.parent
PAGE = (ROOT / "docs" / "first-hour.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def _cpu(text: str) -> int:
    return amount("cpu", str(text))


def _commands(page: str, begins: str) -> int:
    """Commands of the first block after a text: lines that continue count with the first."""
    text = (ROOT / "docs" / page).read_text().split(begins)[1]
    block = re.findall(r"^ *```\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)[0]
    lines = block.replace("\\\n", " ").splitlines()
    return len([one for one in lines if one.strip() and not re.match(r" *[A-Z]+=", one)])


def test_production_takes_as_many_commands_as_the_page_says() -> None:
    fresh = _commands("install.md", "3. **Apply** the chart, six commands")
    moved = _commands("upgrade.md", "### From one pod to three deployments")
    assert (fresh, moved) == (6, 8)
    said = " ".join(PAGE.split())
    assert "Three deployments with a PostgreSQL of yours: six commands" in said
    assert "from the one pod to them, eight" in said


def test_images_have_a_registry_which_one_variable_replaces() -> None:
    texts = [(DEPLOY / "examples/first-pods.yaml").read_text()]
    texts += [(ROOT / name).read_text() for name in ("docker-compose.yml", "Dockerfile")]
    found = re.findall(r"(?:image:|FROM|newName:) (\S+)", "\n".join(texts))
    assert len(found) >= 8
    for image in found:
        mine = image.startswith("gatelog:")
        assert mine or image.startswith(("docker.io/library/", "${MIRROR"))
    values = yaml.safe_load((DEPLOY / "chart/values.yaml").read_text())
    assert values["nats"]["image"]["repository"] == "docker.io/library/nats"


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
    containers = [p["spec"]["containers"][0] for p in group]
    asked = [_cpu(c["resources"]["requests"]["cpu"]) for c in containers]
    assert sum(asked) == _cpu(quota) and len(pods) == len(group) + 1
    # Of two CPUs a cluster of one node has about one left beside its own pods.
    (of,) = of_kind(DEPLOY / "standalone", "StatefulSet").values()
    (one,) = of["spec"]["template"]["spec"]["containers"]
    assert _cpu(quota) + _cpu(one["resources"]["requests"]["cpu"]) <= _cpu("1")
    assert {p["metadata"]["annotations"][GROUP_TOTAL_COUNT] for p in group} == {str(len(group))}
