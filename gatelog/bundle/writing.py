"""The archive: texts without secrets, an export, and a page that lists them.

Invariant: every text goes through the scrubber; the archive gets its name when it is complete.
"""

import asyncio
import io
import os
import ssl
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gatelog.bundle import cluster
from gatelog.bundle.scrubbing import Scrubber
from gatelog.readmodel.model import ReadModel
from gatelog.shell.errors import CommandFailed, explain
from gatelog.shell.versions import facts
from runtime.settings import Settings
from runtime.settings_source import describe

GROUP = "group.jsonl.gz"
_TIMEOUT_S = 5.0
_MOST_BYTES = 4 * 1024 * 1024
_WHAT = {
    "logs": "the last log lines",
    "metrics": "metrics of a pod",
}
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}  # the address to connect to
_ABOUT = """A bundle of gatelog, made {at} for helpers from outside.

{content}

{gone} replaces what was known here to be secret, and for what looked like a password, token or
key. What neither was known nor looks like one is still in it: look through it before you send it.
Names of namespaces, queues, groups and pods are in the findings of doctor, in logs and in
metrics; in {group} they are pseudonyms that cannot be turned back.
"""


class Bundle:
    """An archive that is being filled."""

    def __init__(self, path: Path, root: str, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._root = root
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        self._tar = tarfile.open(path, "w:gz")  # noqa: SIM115 # closed by `close`
        self.content: list[str] = []
        self.missing: list[tuple[str, str]] = []

    def text(self, name: str, text: str, what: str = "") -> None:
        """Add a text without its secrets."""
        self.raw(name, self._scrubber.text(text).encode(), what)

    def document(self, name: str, found: Any, what: str) -> None:
        """Add a document without its secrets."""
        plain = self._scrubber.value(msgspec.to_builtins(found))
        self.raw(name, msgspec.json.format(msgspec.json.encode(plain)) + b"\n", what)

    def raw(self, name: str, data: bytes, what: str) -> None:
        """Add bytes that hold no secrets."""
        info = tarfile.TarInfo(f"{self._root}/{name}")
        info.size, info.mtime, info.mode = len(data), int(time.time()), 0o600
        self._tar.addfile(info, io.BytesIO(data))
        self.content.append(f"  {name:<40} {what}".rstrip())

    def lacks(self, what: str, error: BaseException | str) -> None:
        """Note a missing part."""
        self.missing.append((what, error if isinstance(error, str) else explain(error).sentence))

    def close(self) -> None:
        """Write the page and end the archive."""
        missing = [f"  {what}: {self._scrubber.text(why)}" for what, why in self.missing]
        lines = self.content + (["", "Could not be had:", *missing] if missing else [])
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        page = _ABOUT.format(at=at, content="\n".join(lines), gone="***", group=GROUP)
        self.raw("README.txt", page.encode(), "")
        self._tar.close()


class Content(NamedTuple):
    """The wanted content: a group (None: the group that has waited longest) and logs."""

    group: tuple[str, str] | None
    namespace: str
    log_lines: int
    logs: tuple[Path, ...]


async def write(
    settings: Settings,
    path: Path,
    scrubber: Scrubber,
    wanted: Content,
    tell: Callable[[str], None],
) -> Bundle:
    """Fill the archive `path`; a part that cannot be had is noted, and the others follow.

    Raises:
        CommandFailed: the file cannot be written.
    """
    try:
        folder = tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise CommandFailed(f"cannot write {path}: {error.strerror}") from error
    with folder as name:
        temporary = Path(name)
        tell("asking the parts")
        found = await cluster.ask(settings, wanted.namespace, wanted.log_lines)
        scrubber = scrubber.knowing(found.secrets)
        made = Bundle(temporary / "bundle", path.name.split(".", 1)[0] or "bundle", scrubber)
        made.document("version.json", facts(), "versions")
        made.document("settings.json", _settings(settings), "all settings, and which were given")
        tell("asking doctor")
        await _doctor(made, settings)
        await asyncio.to_thread(_metrics_here, made, settings)
        if found.parts:
            made.document("parts.json", found.parts, "deployments and pods of gatelog")
        for text_name, text in sorted(found.texts.items()):
            made.text(text_name, text, _WHAT.get(text_name.split("/", 1)[0], ""))
        made.missing += found.missing
        for file in wanted.logs:
            _log_file(made, file, wanted.log_lines)
        tell("exporting a group")
        await _group(made, settings, wanted.group, temporary / GROUP)
        made.close()
        (temporary / "bundle").replace(path)
    return made


def _settings(settings: Settings) -> dict[str, Any]:
    plain = msgspec.to_builtins(settings)
    found: dict[str, Any] = {}
    for doc in describe():
        value = (plain[doc.section] if doc.section else plain)[doc.name]
        default = msgspec.to_builtins(doc.default)
        found[doc.path] = {"value": value, "given": value != default}
    return found


async def _doctor(made: Bundle, settings: Settings) -> None:
    from gatelog import doctor

    try:
        findings = await doctor.examine(settings)
    except Exception as error:  # any error: then the rest of the bundle matters all the more
        made.lacks("doctor.json", error)
        return
    made.document("doctor.json", findings, doctor.conclusion(findings))


def _metrics_here(made: Bundle, settings: Settings) -> None:
    """Ask the health port of the settings, which is that of a process on this machine."""
    health = settings.health
    if not health.port:
        made.lacks("metrics.txt", "health.port is off in these settings")
        return
    scheme = "https" if health.cert_file else "http"
    url = f"{scheme}://{_LOOPBACK.get(health.host, health.host)}:{health.port}/metrics"
    try:
        # Its certificate is for another name than this address; nothing is sent but the request.
        context = ssl._create_unverified_context() if health.cert_file else None
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S, context=context) as answer:
            text = answer.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError) as error:
        made.lacks("metrics.txt", f"{url}: {error}")
        return
    made.text("metrics.txt", text, "metrics of the process on this machine")


def _log_file(made: Bundle, file: Path, lines: int) -> None:
    try:
        with file.open("rb") as source:
            source.seek(0, os.SEEK_END)
            source.seek(max(0, source.tell() - _MOST_BYTES))
            text = source.read().decode(errors="replace")
    except OSError as error:
        made.lacks(f"logs/{file.name}", error.strerror or str(error))
        return
    made.text(f"logs/{file.name}", "\n".join(text.splitlines()[-lines:]) + "\n", _WHAT["logs"])


async def _group(
    made: Bundle, settings: Settings, group: tuple[str, str] | None, file: Path
) -> None:
    """Export a group under pseudonyms whose key is not kept."""
    from gatelog.replay import exporting
    from projector.replay.selecting import Wanted

    try:
        wanted = group or await asyncio.to_thread(_choose, settings)
        if wanted is None:
            made.lacks(GROUP, "the read model knows no group")
            return
        space, name = wanted
        await exporting.export(
            settings, file, Wanted(namespace=space, name=name), exporting.new_key(), lambda _: None
        )
    except Exception as error:  # as above: no log, no database, a log without its beginning
        made.lacks(GROUP, error)
        return
    made.raw(GROUP, file.read_bytes(), "the log of one group, under pseudonyms: gatelog replay")


def _choose(settings: Settings) -> tuple[str, str] | None:
    """Return the group that has waited longest, else the newest."""
    from projector.storage.urls import database_url

    with ReadModel(database_url(settings), settings.cluster) as model:
        waiting = [row for row in model.pending(limit=1000) if row.since is not None]
        if waiting:
            oldest = min(waiting, key=lambda row: (str(row.since), row.namespace, row.name))
            return oldest.namespace, oldest.name
        newest = model.listed("", gone=True, limit=1)
        return (newest[0].namespace, newest[0].name) if newest else None
