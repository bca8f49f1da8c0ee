"""All that our commands import, for the process that others are forked from (`forking`)."""

import gc
import importlib
import pkgutil

import actuator
import gatelog
import ingest
import podgroup
import projector
import simcluster

for _package in (podgroup, ingest, projector, actuator, gatelog, simcluster):
    for _found in pkgutil.walk_packages(_package.__path__, f"{_package.__name__}."):
        if not _found.name.endswith("__main__") and ".migrations" not in _found.name:
            importlib.import_module(_found.name)
gc.collect()
gc.freeze()
