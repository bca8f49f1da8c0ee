"""The cluster that the kubeconfig names: read from its files, without a request.

Theory. A read model on this machine is of one cluster, and the kubeconfig names a cluster. The two
clusters are the same if server and authority are equal: a cluster that was made anew at an old
address has another authority.

Invariant: no credential is read; a file that cannot be read names nothing.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

from msgspec import Struct


class Named(Struct, frozen=True):
    """A cluster that a kubeconfig names, and the namespace of its context ("" if it has none)."""

    context: str
    server: str
    namespace: str
    identity: str
    """Server and a digest of its authority."""


def by_kubeconfig(kubeconfig: str = "", context: str = "") -> Named | None:
    """Return the cluster of a context (the current one); None: no file names one."""
    contexts: dict[str, dict[str, Any]] = {}
    clusters: dict[str, tuple[Path, dict[str, Any]]] = {}
    for file, found in _files(kubeconfig):
        context = context or str(found.get("current-context") or "")
        for one in found.get("contexts") or ():
            contexts.setdefault(str(one.get("name")), one.get("context") or {})
        for one in found.get("clusters") or ():
            clusters.setdefault(str(one.get("name")), (file, one.get("cluster") or {}))
    chosen = contexts.get(context)
    if chosen is None:
        return None
    file, cluster = clusters.get(str(chosen.get("cluster")), (Path(), {}))
    server = str(cluster.get("server") or "").rstrip("/")
    namespace = str(chosen.get("namespace") or "")
    digest = hashlib.sha256(_authority(file, cluster)).hexdigest()[:16]
    return Named(context, server, namespace, f"{server} {digest}")


def _files(kubeconfig: str) -> list[tuple[Path, dict[str, Any]]]:
    import yaml

    named = kubeconfig or os.environ.get("KUBECONFIG", "") or "~/.kube/config"
    found = []
    for part in filter(None, named.split(os.pathsep)):
        file = Path(part).expanduser()
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue  # the login reports what is wrong with it
        if isinstance(content, dict):
            found.append((file, content))
    return found


def _authority(file: Path, cluster: dict[str, Any]) -> bytes:
    inline = cluster.get("certificate-authority-data")
    if inline:
        return str(inline).encode()
    try:
        return (file.parent / str(cluster.get("certificate-authority") or "")).read_bytes()
    except OSError:
        return b""
