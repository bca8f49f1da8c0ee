"""Where a read model or a file is, as a person types it from here: short, without a password."""

import os
from pathlib import Path


def read_model_at(url: str) -> str:
    """Return where a read model is: the path of a file, or a URL without driver and password."""
    if url.startswith("sqlite:///") and "?" not in url:
        return near(url.removeprefix("sqlite:///"))
    from projector.storage.database import shown

    scheme, _, rest = shown(url).partition("://")
    if scheme.startswith("sqlite"):
        return near(rest.removeprefix("/"))
    return f"{scheme.partition('+')[0]}://{rest}"


def near(path: str) -> str:
    """Return a path relative to here when it lies below, else as it is."""
    full = Path(path).absolute()
    here = Path.cwd()
    return os.path.relpath(full, here) if full.is_relative_to(here) else str(full)
