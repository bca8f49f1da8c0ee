"""Where segments are kept: a directory, or a bucket of an object store.

Theory. A store does three things: list its files, put a file, get a file. A directory is served by
the standard library, with a sync before a file gets its name, because archived messages may be gone
from the stream tomorrow. Buckets (S3 and compatible stores, Google, Azure) are served by obstore,
whose credentials come from where their own tools take them: environment variables, the service
account's token file, or the machine's metadata.

Invariant: a file with a name has all of its bytes.
"""

import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
"""Schemes of object stores; everything else is a directory."""
STALE_S = 86_400.0
"""Age after which an unfinished file in a directory belongs to no process any more."""
_RETRIES = 4
_RETRY_TIMEOUT_S = 60


class ArchiveStoreUnavailable(Exception):
    """The place of the archive cannot be used; the message says why and what to do."""


class ArchiveStore(Protocol):
    """Blocking; every method raises ArchiveStoreUnavailable."""

    url: str

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder and below, sorted; none if it is not there."""

    def put(self, file: Path, folder: str, name: str) -> None:
        """Put a file there under `name`; the same name again replaces it by its equal."""

    def fetched(self, folder: str, name: str) -> contextlib.AbstractContextManager[Path]:
        """Give a local path of a file while the context is open."""


def open_archive_store(url: str) -> ArchiveStore:
    """Return the store that `archive.url` names.

    Raises:
        ArchiveStoreUnavailable: the URL has another form, or obstore is not installed.
    """
    scheme, colon, rest = url.partition("://")
    if not colon:
        return Directory(Path(url).expanduser())
    if scheme == "file":
        return Directory(Path(urlsplit(url).path))
    if scheme in SCHEMES and rest:
        return Bucket(url)
    raise ArchiveStoreUnavailable(
        f"archive.url {url}: give a directory, or s3://bucket/prefix, gs://bucket/prefix or "
        "az://account/container/prefix"
    )


class Directory:
    """A directory of this machine, or mounted on it."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.url = str(self._path)

    def names(self, folder: str) -> list[str]:
        """See ArchiveStore."""
        with self._refusing(folder):
            below = os.walk(self._path / folder, onerror=_unless_missing)
            return sorted(name for _, _, names in below for name in names)

    def put(self, file: Path, folder: str, name: str) -> None:
        """See ArchiveStore."""
        place = self._path / folder
        part = place / f".{name}.{secrets.token_hex(4)}.part"
        with self._refusing(folder):
            place.mkdir(parents=True, exist_ok=True)
            self._forget_unfinished(place)
            try:
                with file.open("rb") as source, part.open("xb") as target:
                    while chunk := source.read(1 << 20):
                        target.write(chunk)
                    target.flush()
                    os.fsync(target.fileno())
                part.replace(place / name)
                _sync(place)
            finally:
                part.unlink(missing_ok=True)

    @contextlib.contextmanager
    def fetched(self, folder: str, name: str) -> Iterator[Path]:
        """See ArchiveStore."""
        path = self._path / folder / name
        with self._refusing(folder):
            path.stat()
        yield path

    def _forget_unfinished(self, place: Path) -> None:
        """Remove files that a killed writer began long ago."""
        for part in place.glob(".*.part"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - part.stat().st_mtime > STALE_S:
                    part.unlink()

    @contextlib.contextmanager
    def _refusing(self, folder: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self._path / folder
            raise ArchiveStoreUnavailable(
                f"archive {where}: {error.strerror or error}; is the directory mounted, writable "
                "for this user, and has it room?"
            ) from error


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync(directory: Path) -> None:
    """Make a new name in a directory survive a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Bucket:
    """A bucket, or a prefix in a bucket."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            from obstore.store import from_url
        except ModuleNotFoundError as error:
            raise ArchiveStoreUnavailable(
                f"archive.url {url}: object stores need the package obstore: "
                "pip install 'gatelog[archive]'"
            ) from error
        with self._refusing():
            self._store: ObjectStore = from_url(
                url,
                retry_config={
                    "max_retries": _RETRIES,
                    "retry_timeout": timedelta(seconds=_RETRY_TIMEOUT_S),
                },
            )

    def names(self, folder: str) -> list[str]:
        """See ArchiveStore."""
        import obstore

        with self._refusing():
            found = [
                one["path"].rpartition("/")[2]
                for page in obstore.list(self._store, prefix=folder, chunk_size=1000)
                for one in page
            ]
        return sorted(found)

    def put(self, file: Path, folder: str, name: str) -> None:
        """See ArchiveStore."""
        import obstore

        with self._refusing():
            obstore.put(self._store, f"{folder}/{name}", file)

    @contextlib.contextmanager
    def fetched(self, folder: str, name: str) -> Iterator[Path]:
        """See ArchiveStore."""
        import obstore

        with tempfile.TemporaryDirectory(prefix="gatelog-archive-") as home:
            path = Path(home) / name
            with self._refusing(), path.open("wb") as file:
                for chunk in obstore.get(self._store, f"{folder}/{name}").stream():
                    file.write(chunk)
            yield path

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            # Of what the library tells the first line is for people; the rest is its own types.
            said = str(error).strip().partition("\n")[0].partition(": <?xml")[0]
            raise ArchiveStoreUnavailable(
                f"archive {self.url}: {said}; are bucket, region, endpoint and credentials right "
                "(AWS_REGION, AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and the like)?"
            ) from error
