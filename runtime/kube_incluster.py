"""Who we are in a pod: the service account's files, read without the client library.

Theory. In a pod the configuration is two environment variables and two files, of which the token is
renewed under the same path. Reading them here needs no client library; `kubeconfig` loads the part
of a client library that reads kubeconfigs.

Invariant: a token is never older than `REREAD_S`, and never part of an error.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from runtime.kube_errors import KubeError

DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REREAD_S = 60.0


class InCluster:
    """What `Login` needs of a configuration, of the service account of this pod.

    Raises:
        KubeError: the environment or a file is missing; the message says which.
    """

    proxy = None
    tls_server_name = None
    cert_file = None
    key_file = None
    verify_ssl = True

    def __init__(
        self, directory: Path = DIRECTORY, environment: Mapping[str, str] | None = None
    ) -> None:
        given = os.environ if environment is None else environment
        host = given.get("KUBERNETES_SERVICE_HOST", "")
        port = given.get("KUBERNETES_SERVICE_PORT", "")
        if not (host and port):
            raise KubeError(
                "cannot use the service account: KUBERNETES_SERVICE_HOST and "
                "KUBERNETES_SERVICE_PORT are set in pods only"
            )
        self.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.ssl_ca_cert = str(directory / "ca.crt")
        self._file = directory / "token"
        self._read_at = 0.0
        self._token = ""
        self._refresh()
        if not Path(self.ssl_ca_cert).is_file():
            raise KubeError(f"cannot use the service account: {self.ssl_ca_cert} is missing")

    async def get_api_key_with_prefix(self, _: str) -> str:
        """Return the Authorization header's value, from the file as it is by now."""
        if time.monotonic() - self._read_at >= REREAD_S:
            self._refresh()
        return f"Bearer {self._token}"

    def _refresh(self) -> None:
        try:
            token = self._file.read_text().strip()
        except OSError as error:
            raise KubeError(
                f"cannot use the service account: {self._file}: {error.strerror}; is "
                "automountServiceAccountToken off?"
            ) from error
        if not token:
            raise KubeError(f"cannot use the service account: {self._file} is empty")
        self._token, self._read_at = token, time.monotonic()
