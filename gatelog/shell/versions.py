"""Which version of gatelog this is, and which forms of log and database go with it.

Invariant: needs nothing but this package; asks no database and no cluster.
"""

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final

SBOM: Final = "sbom.cdx.json"
"""File of an image that lists its components (CycloneDX); the Dockerfile writes it."""


def facts(prefix: Path = Path(sys.prefix)) -> dict[str, Any]:
    """Return name and value of each fact, in the order in which they are shown.

    `prefix`: where Python is. The chart gives the digest of an image that is named by it.
    """
    found = {"gatelog": metadata.version("gatelog")}
    if revision := _revision():
        found["revision"] = revision
    if digest := os.environ.get("IMAGE_DIGEST"):
        found["image"] = digest
    if (sbom := prefix / SBOM).exists():
        found["sbom"] = str(sbom)
    try:
        from projector.upkeep import migrate
    except ModuleNotFoundError:
        found["schema"] = "unknown: the extra `projector` is not installed"
    else:
        found["schema"] = migrate.head()
    return {**found, "python": platform.python_version(), "platform": platform.platform()}


def _revision() -> str:
    """Return the commit an image was built from, as its Dockerfile wrote it; "": not known."""
    try:
        return (Path(__file__).parents[1] / "REVISION").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
