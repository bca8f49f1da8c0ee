"""From any error to one sentence for a person, and an exit code.

Theory. The parts below raise errors whose message already says what is wrong, where, and what to
do. This module knows their names, looks them up among the modules that are loaded (a class that
was never imported cannot have been raised, so no extra is imported for it), and falls back to a
sentence that asks for `--debug` for everything unexpected.

Exit codes: 0 done, 1 it failed, 2 a wrong request (usage, settings, a login that the log server
refuses), 130 interrupted.

Invariant: `explain` returns one line without a trailing newline, for every exception.
"""

import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from runtime.settings import Settings

FAILED = 1
USAGE = 2
INTERRUPTED = 130

_SENTENCES = (
    ("runtime.embedded", "EmbeddedError"),
    ("runtime.jetstream", "BusError"),
    ("runtime.kube", "KubeError"),
    ("runtime.listening", "ListenError"),
    ("projector.archive.reading", "LogIncomplete"),
    ("projector.archive.archive_store", "ArchiveStoreUnavailable"),
    ("projector.archive.writing", "ArchiveDamaged"),
    ("projector.storage.urls", "DatabaseError"),
    ("projector.storage.store", "StoreDamaged"),
    ("projector.storage.store", "StoreUnavailable"),
    ("projector.storage.store", "StaleProjector"),
    ("runtime.certificates", "CertificateError"),
    ("runtime.manifests", "ManifestError"),
)
"""(module, class) of errors whose message is meant for people."""

_SURROUNDINGS = (
    ("runtime.settings", "SettingsError"),
    ("runtime.jetstream", "LoginRefused"),
    ("runtime.jetstream", "ServerTooOld"),
    ("runtime.jetstream", "StreamMismatch"),
)
"""Errors of wrong settings: a repetition fails in the same way."""

_EXTRAS = {
    "nats": "all",
    "kubernetes_asyncio": "ingest",
    "aiohttp": "ingest",
    "cryptography": "ingest",
    "yaml": "ingest",
    "sqlalchemy": "projector",
    "alembic": "projector",
    "psycopg": "projector",
    "obstore": "archive",
}
"""Package that may be absent -> the extra that brings it."""

_NO_DEMO = "the image has no demo and no stand-in of a cluster: run `make demo` in a checkout"


class CommandFailed(Exception):
    """A command could not do its task; the message says why and what to do."""

    exit_code = FAILED


class NotHere(CommandFailed):
    """No setting names a read model, and none on this machine is of the kubeconfig's cluster.

    `settings` are those of the typed line, which name the cluster.
    """

    def __init__(self, said: str, settings: "Settings") -> None:
        """Say what is not here."""
        super().__init__(said)
        self.settings = settings


class UsageFailed(CommandFailed):
    """A command was asked for something that makes no sense."""

    exit_code = USAGE


class Explained(NamedTuple):
    """One sentence, the exit code, and whether the error was one we know."""

    sentence: str
    exit_code: int
    known: bool


def explain(error: BaseException) -> Explained:
    """Explain an error in one line. Of a group of errors the first known error counts."""
    if isinstance(error, BaseExceptionGroup):
        found = [explain(inner) for inner in error.exceptions]
        return next((one for one in found if one.known), found[0])
    text = " ".join(str(error).split())
    if isinstance(error, CommandFailed):
        return Explained(text, error.exit_code, True)
    if isinstance(error, KeyboardInterrupt):
        return Explained("interrupted", INTERRUPTED, True)
    if any(_is(error, module, name) for module, name in _SURROUNDINGS):
        return Explained(text, USAGE, True)
    if any(_is(error, module, name) for module, name in _SENTENCES):
        return Explained(text, FAILED, True)
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if error.name == "gatelog.demo":
            return Explained(_NO_DEMO, FAILED, True)
        package = error.name.split(".", 1)[0]
        if package in _EXTRAS:
            extra = _EXTRAS[package]
            return Explained(
                f"the package {package} is not installed: pip install 'gatelog[{extra}]'", 1, True
            )
    if isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError):
        where = f"{error.filename}: " if error.filename else ""
        return Explained(f"{where}{error.strerror or text}", FAILED, True)
    return Explained(
        f"unexpected {type(error).__name__}: {text or 'no message'} "
        "(a defect of gatelog; run again with --debug for the traceback)",
        FAILED,
        False,
    )


def _is(error: BaseException, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(error, kind)
