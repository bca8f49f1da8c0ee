"""Signatures of messages: who made a message, whatever way it got into the stream.

Theory. Permissions of a log server bound the subjects that an account publishes to, but not the
subjects of answers and deliveries: an account that may send any request can name any subject for
the answer, and an account that may read a stream can have its messages delivered into another
stream. So a stream may hold messages that no account with a right to it has published. A signature
(Ed25519, RFC 8032) covers subject, message id, body and the time of signing; only the projector has
the private key, the other parts have public keys and can only check.

An old message that is put into the stream once more has a good signature and an old time: beyond
`MAX_AGE_S` between signing and storing it is refused. Within that time its message id is mostly
known to the server, and its commands name uids and may be repeated anyway.

Invariant: no error and no log line holds a key or a part of one.
"""

import base64
import hashlib
import os
import re
import time
from typing import TYPE_CHECKING, Any, Final

from runtime.jetstream.values import Message
from runtime.log import get_logger
from runtime.settings import SettingsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

MAX_AGE_S: Final = 600
"""Seconds between signing and storing at most: a publish is given up after 60, the rest is for
clocks of projector and log server that differ."""
LOOK_S: Final = 5.0
"""Seconds between looks whether the file of keys was changed."""
_PURPOSE: Final = b"gatelog message v1"
_PUBLIC: Final = re.compile(
    rb"-----BEGIN (PUBLIC KEY|CERTIFICATE)-----.+?-----END \1-----", re.DOTALL
)
"""A public key, or a certificate of a public key, as helm can make."""
_SIGNATURE: Final = re.compile(r"([0-9a-f]{16})\.([0-9]{1,12})\.([A-Za-z0-9_-]{86}==)")

log = get_logger("signing")


class Signer:
    """Signs messages before they are published."""

    def __init__(self, path: str) -> None:
        """Read the key from a PEM file (PKCS #8, not encrypted).

        Raises:
            SettingsError: it cannot be read, or holds no Ed25519 key.
        """
        setting = "projector.signing_key_file"
        ed25519, serialization = _cryptography(setting)
        try:
            key = serialization.load_pem_private_key(_read(setting, path), None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise SettingsError(
                f"{setting} = {path!r}: holds no Ed25519 private key (make one with "
                "`openssl genpkey -algorithm ed25519`)"
            )
        self._key: Ed25519PrivateKey = key
        self._name = _name_of(key.public_key())

    def sign(self, subject: str, msg_id: str, body: bytes) -> str:
        """Return the signature of a message that is published now."""
        at = str(int(time.time()))
        signed = self._key.sign(_covered(subject, msg_id, at, body))
        return f"{self._name}.{at}.{base64.urlsafe_b64encode(signed).decode()}"


class Verifier:
    """Tells good messages from others.

    The file of keys is read when it changed: looked at every `LOOK_S`, and for an unknown key.
    """

    def __init__(self, path: str) -> None:
        """Read the keys from a file of PEM blocks, public keys or certificates of them.

        Any of them may have signed.

        Raises:
            SettingsError: it cannot be read, or holds no Ed25519 public key.
        """
        self._path = path
        self._keys = _public_keys(path)
        self._stamp = _stamp(path)
        self._looked_s = time.monotonic()

    def problem(self, message: Message) -> str:
        """Return why a stored message is not to be trusted, "" when it is good."""
        self._reload_if_changed()
        if not message.signature:
            return "it is not signed"
        found = _SIGNATURE.fullmatch(message.signature)
        if found is None:
            return "its signature is none of ours"
        name, at, text = found.groups()
        key = self._keys.get(name)
        if key is None and self._changed():  # a new key may be used at once
            key = self._keys.get(name)
        if key is None:
            return f"it is signed with key {name}, which is not among those of this actuator"
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(
                base64.urlsafe_b64decode(text),
                _covered(message.subject, message.msg_id, at, message.body),
            )
        except InvalidSignature:
            return f"its signature is wrong: it is not what the owner of key {name} signed"
        late_s = message.at.timestamp() - int(at)
        if abs(late_s) > MAX_AGE_S:
            return (
                f"it was signed {late_s:.0f} s before it was stored: it was put there again, or "
                f"the clocks of projector and NATS differ by more than {MAX_AGE_S} s"
            )
        return ""

    def _reload_if_changed(self) -> None:
        if time.monotonic() >= self._looked_s + LOOK_S:
            self._changed()

    def _changed(self) -> bool:
        """Look whether the file was changed; if so read it."""
        self._looked_s = time.monotonic()
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self._keys = _public_keys(self._path)
        except SettingsError as error:
            log.error("keys_not_read", error=str(error), note="those that were read stay in force")
        else:
            log.info("keys_read", keys=sorted(self._keys))
        return True


def _covered(subject: str, msg_id: str, at: str, body: bytes) -> bytes:
    # A subject or header holds no line break, so the parts cannot be shifted.
    head = f"{subject}\n{msg_id}\n{at}\n".encode()
    return b"\n".join((_PURPOSE, head + body))


def _public_keys(path: str) -> "dict[str, Ed25519PublicKey]":
    setting = "actuator.decision_keys_file"
    ed25519, serialization = _cryptography(setting)
    keys: dict[str, Ed25519PublicKey] = {}
    for block in _PUBLIC.finditer(_read(setting, path)):
        try:
            key = _public_key(serialization, block[0], certified=block[1] == b"CERTIFICATE")
        except ValueError:
            key = None
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise SettingsError(f"{setting} = {path!r}: one of its keys is no Ed25519 public key")
        keys[_name_of(key)] = key
    if not keys:
        raise SettingsError(
            f"{setting} = {path!r}: holds no public key (`openssl pkey -in KEY -pubout` prints one)"
        )
    return keys


def _public_key(serialization: Any, block: bytes, *, certified: bool) -> Any:
    if not certified:
        return serialization.load_pem_public_key(block)
    from cryptography import x509

    return x509.load_pem_x509_certificate(block).public_key()


def _name_of(key: "Ed25519PublicKey") -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def _read(setting: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError as error:
        raise SettingsError(f"{setting} = {path!r}: cannot be read: {error.strerror}") from None


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _cryptography(setting: str) -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise SettingsError(
            f"{setting} is set, which needs the package cryptography: install gatelog[projector] "
            "or gatelog[actuator]"
        ) from None
    return ed25519, serialization
