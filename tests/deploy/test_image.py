"""The image: what the Dockerfile copies is what the wheel needs, and the wheel is complete.

Not covered: building the image itself, for want of a container engine.
"""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PARTS = ("ingest", "projector", "actuator", "serve")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def copied() -> set[str]:
    found: set[str] = set()
    for line in re.findall(r"^COPY (?!--)(.+)$", DOCKERFILE, re.MULTILINE):
        found |= set(line.split()[:-1])
    return found


def test_the_dockerfile_copies_all_that_the_wheel_is_made_of():
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    project = PROJECT["project"]
    needed = {"pyproject.toml", project["readme"], *project["license-files"]}
    needed |= {*wheel["packages"], *(name.split("/")[0] for name in wheel["force-include"])}
    assert copied() == needed
    assert all((ROOT / name).exists() for name in copied())
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[1:] or ignored
    for name in copied():
        assert f"!{name}" in ignored or f"!{name}/**" in ignored


def test_the_wheel_carries_all_of_deploy_but_the_chart():
    carried = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    there = {f"deploy/{p.name}" for p in (ROOT / "deploy").iterdir()}
    assert {name for name in carried if name != "migrations"} == there - {"deploy/chart"}


def test_the_image_runs_as_a_number_and_holds_what_each_part_imports():
    assert re.search(r"^USER 65532:65532$", DOCKERFILE, re.MULTILINE)
    assert 'ENTRYPOINT ["gatelog"]' in DOCKERFILE
    (extras,) = re.findall(r"'\.\[(.+)\]'", DOCKERFILE)
    assert set(extras.split(",")) == {*PARTS, "archive", "embedded"}
    (version,) = re.findall(r"^ARG PYTHON_VERSION=(.+)$", DOCKERFILE, re.MULTILINE)
    lowest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert tuple(map(int, version.split("."))) >= tuple(map(int, lowest.split(".")))


@pytest.mark.slow("it builds the wheel")
@pytest.mark.timeout(300)
def test_the_wheel_carries_migrations_and_manifests(tmp_path: Path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True, timeout=280)
    (wheel,) = tmp_path.glob("gatelog-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        "projector/migrations/env.py",
        "gatelog/deploy/crds/workloads.yaml",
        "gatelog/deploy/admission-policy/mutating-admission-policy.yaml",
    }
    assert expected <= names
    for package in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        found = [p for p in (ROOT / package).rglob("*") if p.suffix in (".py", ".html", ".css")]
        sources = {p.relative_to(ROOT).as_posix() for p in found}
        assert sources <= names
    # Under other heads of the tree lie things that are nobody's business.
    heads = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert heads == {*PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    # The script, the command and the component that make them; nothing that was made.
    ours = ("deploy/secrets.sh", "/commands/secrets.py", "deploy/components/secrets/")
    assert not [n for n in names if "secret" in n and not any(one in n for one in ours)]
