"""The manifests in deploy/, read as kustomize would read them, without kustomize.

Only what our files use is understood: resources (files and directories) and components. Patches
and generators are kustomize's business; where kubectl is installed, `test_manifests` runs it.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
Json = dict[str, Any]


def kustomizations() -> list[Path]:
    return sorted(p.parent for p in DEPLOY.rglob("kustomization.yaml"))


@cache
def kustomization(directory: Path) -> Json:
    return yaml.safe_load((directory / "kustomization.yaml").read_text())


def files(directory: Path) -> Iterator[Path]:
    """Resource files of a kustomization and of everything it includes."""
    found = kustomization(directory)
    for name in found.get("resources") or ():
        path = (directory / name).resolve()
        if path.is_dir():
            yield from files(path)
        else:
            yield path
    for name in found.get("components") or ():
        yield from files((directory / name).resolve())


def parsed(text: str) -> list[Json]:
    """Objects of a text, by libyaml: a rendered chart takes a ninth of the time."""
    return [obj for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj]


@cache
def documents(file: Path) -> tuple[Json, ...]:
    """Objects of a file, read once; not to be changed."""
    return tuple(parsed(file.read_text()))


def objects(directory: Path) -> list[Json]:
    return [obj for file in files(directory) for obj in documents(file)]


def of_kind(directory: Path, kind: str) -> dict[str, Json]:
    return {o["metadata"]["name"]: o for o in objects(directory) if o["kind"] == kind}


def pod_template(obj: Json) -> Json:
    return obj["spec"]["template"]
