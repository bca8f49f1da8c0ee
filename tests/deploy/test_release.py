"""Habits of the repository: one version, one set of checks, one lock.

Theory. The version is written in `pyproject.toml`; the program asks its package for it. Manifests,
chart, image and pages cannot ask, so they are held to it here; the same for the hooks of pre-commit
and the `check` of the Makefile, and for the lock and the dependencies.

Invariant: every file that git keeps is searched.
"""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]

_NAMED = re.compile(
    r"""gatelog:(\d+\.\d+\.\d+) | name:\ gatelog,.*newTag:\ (\d[\d.]*) | gatelog\ (\d+\.\d+\.\d+)
    | image\.version="(.+?)"
    | ^(?:appVersion|version):\ (\d+\.\d+\.\d+)$""",
    re.MULTILINE | re.VERBOSE,
)


def test_the_version_of_the_package_is_named_everywhere():
    assert metadata.version("gatelog") == VERSION
    kept = ("README.md", "Dockerfile", "docker-compose.yml", "docs/*.md", "deploy/**/*.yaml")
    found = {
        (str(file.relative_to(ROOT)), version.replace("-", "."))
        for pattern in kept
        for file in ROOT.glob(pattern)
        for match in _NAMED.findall(file.read_text())
        for version in filter(None, match)
    }
    assert {version for _, version in found} == {VERSION}, found
    files = {name for name, _ in found}
    assert {"README.md", "Dockerfile", "docker-compose.yml", "deploy/chart/Chart.yaml"} < files
    assert f"## {VERSION} (" in (ROOT / "CHANGELOG.md").read_text()


def test_pre_commit_runs_what_make_check_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entries = [hook["entry"].removesuffix(" --force-exclude") for hook in hooks]
    recipe = re.search(r"^check: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    commands = recipe[1].replace("$(BIN)", ".venv/bin").split("\n\t")
    assert entries == [command.strip().removesuffix(" .") for command in commands]


def test_every_dependency_is_locked_with_its_hashes_at_a_version_that_it_allows():
    locked: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text()):
        if block.startswith("#"):
            continue
        pinned = re.match(r"(\S+?)==(\S+)", block)
        assert pinned and "--hash=sha256:" in block, block
        locked.setdefault(canonicalize_name(pinned[1]), set()).add(pinned[2])
    extras = PROJECT["optional-dependencies"].values()
    for text in (*PROJECT["dependencies"], *(line for extra in extras for line in extra)):
        wanted = Requirement(text)
        if wanted.name != PROJECT["name"]:
            versions = locked[canonicalize_name(wanted.name)]
            assert all(wanted.specifier.contains(version) for version in versions), text
