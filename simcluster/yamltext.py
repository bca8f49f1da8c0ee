"""YAML bodies, read as Kubernetes reads them: timestamps stay text.

Theory: server-side apply sends YAML; the only trap is that YAML 1.1 loaders turn dates into date
objects, which JSON has no place for.

Invariant: the result holds only what JSON can hold.
"""

from typing import Any

import yaml

from simcluster.errors import bad_request


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe loading without dates, by libyaml where it is."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(body: bytes) -> Any:
    """The document. Raises 400."""
    try:
        return yaml.load(body, Loader=_Loader)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
