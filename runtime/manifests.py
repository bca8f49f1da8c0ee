"""The manifests in `deploy/`: found in a checkout and in an installed wheel, and read as objects.

Theory. The wheel carries `deploy/` inside the package `gatelog`; an editable install has it beside
the packages. What `kubectl apply` would read is what is read here, so a cluster set up by hand and
one set up by `gatelog up --install`, or by an ingest that registers its webhook, are the same.

Invariant: every object returned has apiVersion, kind and metadata.name.
"""

from pathlib import Path
from typing import Any

Object = dict[str, Any]


class ManifestError(Exception):
    """A manifest that is missing or cannot be read; the message says which."""


def root() -> Path:
    """Return the directory with the manifests.

    Raises:
        ManifestError: the installation lacks it.
    """
    package = Path(__file__).resolve().parents[1] / "gatelog"
    for candidate in (package / "deploy", package.parent / "deploy"):
        if candidate.is_dir():
            return candidate
    raise ManifestError(
        f"no deploy/ beside or in {package}: the installation is incomplete, install gatelog again"
    )


def read(*names: str) -> list[Object]:
    """Return the objects of files or directories under `deploy/`, files of a directory by name.

    `kustomization.yaml` and files that are not YAML are left out.

    Raises:
        ManifestError: there is no such file, or one that cannot be read as objects.
    """
    found: list[Object] = []
    for name in names:
        path = root() / name
        if path.is_dir():
            files = sorted(p for p in path.glob("*.yaml") if p.name != "kustomization.yaml")
        else:
            files = [path]
        if not files or not all(file.is_file() for file in files):
            raise ManifestError(f"deploy/{name} is missing: install gatelog again")
        for file in files:
            found += _objects(file)
    return found


def _objects(file: Path) -> list[Object]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml: a tenth of the time
    try:
        documents = list(yaml.load_all(file.read_text(encoding="utf-8"), Loader=loader))
    except yaml.YAMLError as error:
        raise ManifestError(f"{file}: not YAML: {error}") from error
    objects: list[Object] = []
    for document in documents:
        if document is None:
            continue
        if not (
            isinstance(document, dict)
            and document.get("apiVersion")
            and document.get("kind")
            and (document.get("metadata") or {}).get("name")
        ):
            raise ManifestError(f"{file}: a document without apiVersion, kind or metadata.name")
        objects.append(document)
    return objects
