"""Where a run of the tests keeps its files: in memory, where there is plenty of it.

Theory. Log servers and databases of tests write some gigabytes and wait for each of their syncs,
though nothing of a test need survive a power failure. In a file system in memory a sync costs
nothing: an empty PostgreSQL database is there in a tenth of a second instead of half of one.

Invariant: what a run keeps in memory goes with its end, or with the begin of the next run if it
was killed. Who sets TMPDIR has the files there instead, and there they stay.
"""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 6 << 30
"""A run takes up to 2 GB at a time, and processes want memory as well."""
_PREFIX = "gatelog-run-"


def take() -> Path | None:
    """Make a folder in memory the place for temporary files of this process and its children.

    Returns the folder, to be given to `leave`; None: files are where they would be anyway.
    """
    if "TMPDIR" in os.environ or free_bytes() < ENOUGH_BYTES:
        return None
    for old in MEMORY.glob(f"{_PREFIX}*"):
        if not Path(f"/proc/{old.name.split('-')[2]}").exists():
            shutil.rmtree(old, ignore_errors=True)
    found = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=MEMORY))
    found.chmod(0o711)  # as root PostgreSQL runs as another user, who must get through
    os.environ["TMPDIR"] = tempfile.tempdir = str(found)
    return found


def leave(folder: Path) -> None:
    """Take the folder away with all that is in it."""
    tempfile.tempdir = None
    del os.environ["TMPDIR"]
    shutil.rmtree(folder, ignore_errors=True)


def free_bytes() -> int:
    """What can be kept in memory by the file system there and by the memory itself."""
    memory = Path("/proc/meminfo")
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK) or not memory.exists():
        return 0
    lines = dict(line.split(":", 1) for line in memory.read_text().splitlines())
    there = os.statvfs(MEMORY)
    return min(there.f_bavail * there.f_frsize, int(lines["MemAvailable"].split()[0]) * 1024)
