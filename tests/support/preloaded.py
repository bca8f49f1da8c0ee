"""All that our commands import, at once or on their way, for the process that others are forked
from (`forking`)."""

import gc
import importlib
import pkgutil

import actuator
import gatelog
import ingest
import podgroup
import projector
import simcluster
from runtime import kubeconfig

_ON_THEIR_WAY = (
    *("alembic.command", "alembic.config", "uvloop", "psycopg", "celpy.adapter"),
    *("sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"),
    "tests.support.standin.process",
)
"""What they load where it is first needed, which is in nearly every process."""

for _package in (podgroup, ingest, projector, actuator, gatelog, simcluster):
    for _found in pkgutil.walk_packages(_package.__path__, f"{_package.__name__}."):
        if not _found.name.endswith("__main__") and ".migrations" not in _found.name:
            importlib.import_module(_found.name)
for _name in _ON_THEIR_WAY:
    importlib.import_module(_name)
kubeconfig.library()
gc.collect()
gc.freeze()
