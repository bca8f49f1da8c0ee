"""nats-server as it is shipped: deploy/components/nats/nats.conf with the users of each part.

Invariant: passwords and keys are made by deploy/secrets.sh and nowhere else, so that what an
operator does to change one can be done here word for word.
"""

import resource
import signal
import subprocess
from pathlib import Path

from runtime.embedded import server_binary
from runtime.listening import bracketed
from runtime.settings import NatsSettings
from tests.deploy.compose import free_port
from tests.deploy.manifests import DEPLOY


class ShippedNats:
    """One server on loopback; its files are in `folder`, secrets in `folder`/secrets.

    On `::1` it listens as it is shipped, on all addresses.
    """

    def __init__(
        self,
        folder: Path,
        clusters: tuple[str, ...],
        database_host: str = "db",
        monitor: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self.host = host
        listens = "0.0.0.0" if host == "::1" else host
        self.secrets = folder / "secrets"
        self._host = database_host
        self.make_secrets(*clusters)
        self.port = free_port()
        text = (DEPLOY / "components" / "nats" / "nats.conf").read_text()
        text = text.replace("0.0.0.0:4222", f"{listens}:{self.port}")
        text = text.replace(
            'http: "0.0.0.0:8222"', f"http: {listens}:{monitor}" if monitor else ""
        ).replace("/data", str(folder / "data"))
        text = text.replace("../nats-secrets/passwords.conf", "secrets/passwords.conf")
        self._config = folder / "nats.conf"
        self._config.write_text(text)
        self.start()

    def make_secrets(self, *clusters: str) -> None:
        """Run deploy/secrets.sh, which makes what is not there."""
        command = ["sh", str(DEPLOY / "secrets.sh"), str(self.secrets), self._host, *clusters]
        subprocess.run(command, check=True, capture_output=True)

    def start(self, most_bytes: int = 0) -> None:
        """Start on the same port and store; on a full disk, where files have `most_bytes`."""

        def fill() -> None:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))

        arguments = [server_binary(), "-c", str(self._config)]
        self.process = subprocess.Popen(
            arguments,
            stderr=subprocess.DEVNULL,
            # Two system calls, through a module loaded before the fork.
            preexec_fn=fill if most_bytes else None,  # noqa: PLW1509
        )

    def reload(self) -> None:
        """Have the configuration read again, as `nats-server --signal reload` does."""
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """Let it end in order."""
        self.process.terminate()
        self.process.wait(20)

    def settings(self, user: str) -> NatsSettings:
        """How this user logs in."""
        return NatsSettings(
            url=f"nats://{bracketed(self.host)}:{self.port}",
            user=user,
            password_file=str(self.secrets / user),
        )
