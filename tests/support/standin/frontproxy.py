"""Certificates: our own server's, and the front proxy's, by which extension servers know us.

Theory: the API server presents a client certificate of an authority of its own, which it names in
ConfigMap ``kube-system/extension-apiserver-authentication``, and says in headers who asks. A client
that has no such certificate may write the headers and is not believed.

Invariant: the files live as long as the object; the keys are never shared.
"""

import json
import ssl
import tempfile
from pathlib import Path

import trustme

from simcluster.errors import Obj

NAME = "front-proxy-client"


class FrontProxy:
    """An authority and the proxy's client certificate, in a directory of their own."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="simcluster-")
        folder = Path(self._directory.name)
        self.ca_file, self.client_file = folder / "ca.crt", folder / "client.pem"
        self.server_file = folder / "server.pem"
        self._ca = trustme.CA()
        self._ca.cert_pem.write_to_path(self.ca_file)
        self.issue(NAME, self.client_file)
        self.issue("kube-apiserver", self.server_file, "127.0.0.1", "localhost")

    def server_context(self) -> ssl.SSLContext:
        """The TLS context of the API server itself."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_file)
        return context

    def issue(self, name: str, file: Path, *addresses: str) -> Path:
        """Write a certificate of this authority, with its key, for a common name."""
        file.touch(mode=0o600)
        made = self._ca.issue_cert(*addresses, common_name=name)
        made.private_key_and_cert_chain_pem.write_to_path(file)
        return file

    def config_map(self) -> Obj:
        """What extension servers read to know us by."""
        return {
            "metadata": {"name": "extension-apiserver-authentication"},
            "data": {
                "requestheader-client-ca-file": self.ca_file.read_text(),
                "requestheader-allowed-names": json.dumps([NAME]),
                "requestheader-username-headers": json.dumps(["X-Remote-User"]),
                "requestheader-uid-headers": json.dumps(["X-Remote-Uid"]),
                "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
                "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
            },
        }

    def close(self) -> None:
        """Remove the files."""
        self._directory.cleanup()
