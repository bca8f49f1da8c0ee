"""Passwords and keys of the log: made once, in a Secret of the cluster.

Theory. A chart that made passwords while it is rendered would make new ones each time. So the chart
installs an empty Secret, and a Job with a right to that Secret alone fills in missing keys. Present
keys stay: to change a password, take its key out and run the Job again.

Invariant: no value is ever printed, and a Secret that another client has changed meanwhile is read
again.
"""

import base64
import secrets
from typing import Any, Final, Protocol

from podgroup.log import subjects

USERS: Final = ("streams", "ingest", "projector", "actuator", "operator", "logreader")
"""Users of the log server, as deploy/components/nats/nats.conf has them."""
SIGNING, VERIFYING, SERVER = "decision-key.pem", "decision-keys.pem", "passwords.conf"
_TRIES: Final = 5


class SecretError(Exception):
    """The Secret cannot be read or written; the message says what to do."""


class Api(Protocol):
    """The part of a client of the API server that this needs, such as `runtime.kube.KubeClient`."""

    async def json(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Ask, and return status and decoded body."""


def lacking(there: dict[str, bytes], cluster: str) -> dict[str, bytes]:
    """Return what a Secret lacks: passwords, the key of decisions, the log server's list of both.

    The list (`passwords.conf`) is made of the passwords, and again when it says another thing.
    """
    made: dict[str, bytes] = {
        user: secrets.token_hex(24).encode() for user in USERS if not there.get(user)
    }
    if not there.get(SIGNING) or not there.get(VERIFYING):
        made |= _decision_keys(there.get(SIGNING), there.get(VERIFYING, b""))
    text = server_file({**there, **made}, cluster)
    return made if there.get(SERVER) == text else made | {SERVER: text}


def server_file(passwords: dict[str, bytes], cluster: str) -> bytes:
    """Return the file that the log server's configuration includes, as in deploy/secrets.sh."""
    lines = [f'{user}_password: "{passwords[user].decode()}"' for user in USERS]
    consumer = subjects.actuator_consumer(cluster)
    only = (f"CREATE.*.{consumer}", f"CREATE.*.{consumer}.>", f"MSG.NEXT.*.{consumer}")
    denied = [f'  "$JS.API.CONSUMER.{one}"' for one in (*only, f"DELETE.*.{consumer}")]
    return "\n".join([*lines, "actuators_consumers: [", *denied, "]", ""]).encode()


async def fill(api: Api, namespace: str, name: str, cluster: str) -> list[str]:
    """Fill in the missing keys of a Secret; return the written keys, sorted.

    Raises:
        SecretError: the Secret does not exist, or may not be read or written.
        KubeError: the API server could not be reached.
    """
    path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
    for _ in range(_TRIES):
        status, found = await api.json("GET", path)
        if status == 404:
            raise SecretError(
                f"there is no Secret {namespace}/{name}: make it empty (kubectl -n {namespace} "
                f"create secret generic {name}), then run this again"
            )
        if status == 200:
            data = found.get("data") or {}
            made = lacking({key: base64.b64decode(text) for key, text in data.items()}, cluster)
            if not made:
                return []
            patch = {
                "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
                "data": {key: base64.b64encode(one).decode() for key, one in made.items()},
            }
            status, found = await api.json(
                "PATCH",
                path,
                body=patch,
                params={"fieldManager": "gatelog-secrets"},
                content_type="application/merge-patch+json",
            )
            if status == 200:
                return sorted(made)
        if status != 409:
            break
    said = found.get("message") if isinstance(found, dict) else ""
    raise SecretError(
        f"Secret {namespace}/{name} cannot be filled: {status} {said}; the account needs get and "
        "patch of it (Role gatelog-secrets)"
    )


def _decision_keys(private: bytes | None, known: bytes) -> dict[str, bytes]:
    """A key that signs decisions, unless there is one, and its public part.

    Known public keys stay: decisions that an earlier key signed may be under way.
    """
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if private:
        key = form.load_pem_private_key(private, None)
    else:
        key = Ed25519PrivateKey.generate()
        plain = form.NoEncryption()
        private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, plain)
    of_public = form.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(form.Encoding.PEM, of_public)
    return {SIGNING: private, VERIFYING: known + public}
