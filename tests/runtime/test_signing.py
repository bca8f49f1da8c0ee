"""Keys that change while messages come."""

from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from runtime.jetstream.values import Message
from runtime.signing import Signer, Verifier

SUBJECT, MSG_ID, BODY = "decisions.c.0", "d1", b"{}"


def keys(folder: Path, name: str) -> tuple[Signer, bytes]:
    """Return what signs with a new key, and the block that a file of public keys has of it."""
    key = Ed25519PrivateKey.generate()
    file = folder / f"{name}.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return Signer(str(file)), public


def signed(signer: Signer) -> Message:
    signature = signer.sign(SUBJECT, MSG_ID, BODY)
    return Message(1, datetime.now(UTC), SUBJECT, BODY, MSG_ID, signature)


def test_a_key_that_was_added_is_believed_at_once(tmp_path: Path) -> None:
    (old, public), (new, more) = keys(tmp_path, "old"), keys(tmp_path, "new")
    file = tmp_path / "public.pem"
    file.write_bytes(public)
    verifier = Verifier(str(file))
    assert verifier.problem(signed(old)) == ""
    assert "not among those of this actuator" in verifier.problem(signed(new))
    file.write_bytes(public + more)
    assert verifier.problem(signed(new)) == ""
    assert verifier.problem(signed(old)) == ""
