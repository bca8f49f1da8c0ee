"""Reading a kubeconfig with kubernetes_asyncio, of which only this part is loaded.

Theory. The library reads kubeconfigs well (contexts, exec plugins, OIDC), and importing any part of
it imports all of it: its first line pulls in every API and model, 36 MB that is not used here. So
its packages are put in place empty, the modules that read kubeconfigs are imported through them,
and the names are taken away again: a later import of the library gets the whole of it.

Invariant: no module of `kubernetes_asyncio.client.models` or `.api` is imported here.
"""

import importlib
import importlib.util
import sys
from functools import cache
from types import ModuleType
from typing import Any

from msgspec import Struct

_LIBRARY = "kubernetes_asyncio"


class Kubeconfig(Struct, frozen=True):
    """The parts of the library that read kubeconfigs."""

    load: Any
    """`load_kube_config`."""
    configuration: Any
    """Class `Configuration`, which it fills in."""
    refused: type[Exception]
    """`ConfigException`: the file, or what it refers to, cannot be used."""


@cache
def library() -> Kubeconfig:
    """Return the parts of the library, loaded once.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    if _LIBRARY in sys.modules:
        return _parts()
    spec = importlib.util.find_spec(_LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {_LIBRARY!r}", name=_LIBRARY)
    (root, *_) = spec.submodule_search_locations
    try:
        _empty(_LIBRARY, root)
        client = _empty(f"{_LIBRARY}.client", f"{root}/client")
        made = importlib.import_module(f"{_LIBRARY}.client.configuration")
        # Named by functions that return a client of the library's, which are never called.
        client.__dict__.update(Configuration=made.Configuration, ApiClient=object)
        return _parts()
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == _LIBRARY]:
            del sys.modules[name]


def _parts() -> Kubeconfig:
    config = importlib.import_module(f"{_LIBRARY}.config")
    made = importlib.import_module(f"{_LIBRARY}.client.configuration")
    return Kubeconfig(config.load_kube_config, made.Configuration, config.ConfigException)


def _empty(name: str, path: str) -> ModuleType:
    module = ModuleType(name)
    module.__path__ = [path]
    sys.modules[name] = module
    return module
