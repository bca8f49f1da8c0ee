"""Which objects of a cluster are gatelog's: found by label, and by the names of the manifests.

Theory. `deploy/` and the chart label their objects; unlabelled objects of earlier versions are
known by kind and name from the manifests that this installation carries.

Invariant: a similar name or shape alone does not make an object ours.
"""

import re
from collections.abc import AsyncIterator
from functools import cache
from typing import NamedTuple

import msgspec

from gatelog.shell.errors import CommandFailed
from runtime import manifests
from runtime.kube import KubeClient
from runtime.manifests import Object

NAME_LABEL, COMPONENT_LABEL = "app.kubernetes.io/name", "app.kubernetes.io/component"
OWN_NAME = "gatelog"
PAGE = 500
"""Objects in one answer."""
_GENERATED = re.compile(r"gatelog-(settings|nats-server)(-[a-z0-9]{10})?")
_EXPIRED = 410


class Kind(NamedTuple):
    """A kind of the API: where it is served, and its name for people."""

    api: str
    plural: str
    kind: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of the kind's list, or of one object."""
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{self.api}{place}/{self.plural}" + (f"/{name}" if name else "")


def path_of(kind: Kind, obj: Object) -> str:
    """Return the path of an object that was listed."""
    meta = obj["metadata"]
    return kind.path(meta.get("namespace", ""), meta["name"])


async def each(
    kube: KubeClient, kind: Kind, namespace: str = "", selector: str = ""
) -> AsyncIterator[Object]:
    """Go over all objects of a kind, in pages; a kind that is not served has none.

    A list that grows too old to go on with is begun again: objects may come twice.

    Raises:
        CommandFailed: they may not be listed.
    """
    more = ""
    while True:
        params = {"limit": str(PAGE)} | ({"continue": more} if more else {})
        if selector:
            params["labelSelector"] = selector
        answer = await kube.request("GET", kind.path(namespace), params=params)
        if answer.status == 404:
            return
        if answer.status == _EXPIRED and more:
            more = ""
            continue
        if answer.status != 200:
            raise CommandFailed(
                f"cannot list {kind.plural}: the API server answered {answer.status}: "
                f"{answer.message()}"
            )
        page = msgspec.json.decode(answer.body, type=dict)
        for item in page.get("items") or ():
            yield item
        more = (page.get("metadata") or {}).get("continue") or ""
        if not more:
            return


def ours(kind: Kind, obj: Object) -> bool:
    """Return whether `deploy/`, the chart or `gatelog up --install` made an object.

    Objects of the removal Job in the cluster do not count: the Job needs its rights to the end.
    """
    meta = obj["metadata"]
    labels = meta.get("labels") or {}
    if labels.get(COMPONENT_LABEL) == "uninstall":
        return False
    if labels.get(NAME_LABEL) == OWN_NAME:
        return True
    if kind.kind == "ConfigMap":
        return _GENERATED.fullmatch(meta["name"]) is not None
    return (kind.kind, meta["name"]) in _known()


@cache
def _known() -> frozenset[tuple[str, str]]:
    """(kind, name) of all objects in `deploy/`, but for users' own and the kinds of the queues."""
    import yaml

    found: set[tuple[str, str]] = set()
    for file in manifests.root().rglob("*.yaml"):
        parts = set(file.relative_to(manifests.root()).parts)
        if parts & {"examples", "chart", "crds"} or file.name == "kustomization.yaml":
            continue
        for obj in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if isinstance(obj, dict) and obj.get("kind"):
                found.add((obj["kind"], obj["metadata"]["name"]))
    return frozenset(found)
