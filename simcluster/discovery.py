"""Discovery documents: which groups, versions and kinds are served.

Theory: clients first read /version, /api, /apis and a document per group and version; the documents
are made from the catalogue each time, so a new CRD shows at once.

Invariant: a group is listed exactly while at least one of its kinds is served.
"""

from collections.abc import Mapping

from simcluster.errors import Obj
from simcluster.resources import Catalogue

VERSION: Obj = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.0-simcluster",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}


_DEEPEST = 4
"""Slashes in ``/apis/GROUP/VERSION/``; paths of objects have more."""


def _group(name: str, versions: list[str]) -> Obj:
    found = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def document(
    catalogue: Catalogue, path: str, aggregated: Mapping[str, list[str]] | None = None
) -> Obj | None:
    """The discovery document at a path; ``None`` when the path is none or not served.

    ``aggregated``: groups that others serve, with their versions.
    """
    if path.count("/") > _DEEPEST:
        return None
    virtual = {"authorization.k8s.io": ["v1"], "authentication.k8s.io": ["v1"]}
    groups = catalogue.groups() | virtual | dict(aggregated or {})
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            return catalogue.discovery("", "v1")
        case ["apis"]:
            listed = [_group(name, versions) for name, versions in groups.items() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["apis", group, version]:
            return catalogue.discovery(group, version)
        case _:
            return None
