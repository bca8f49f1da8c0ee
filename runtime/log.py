"""Structured log lines on stderr: JSON for machines, columns when a person is watching.

Every line has `timestamp` (UTC, ISO 8601), `level`, `part` (ingest, projector, actuator, webhook,
...) and `event`; the rest are key=value pairs. Lines of the libraries (nats, aiohttp, asyncio)
pass through the same pipe, so that one format reaches the collector.

Invariant: stdout is never written to (it belongs to commands' output), and a value whose key
looks like a secret is masked whatever its part.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
import structlog

if TYPE_CHECKING:
    from runtime.settings import LogSettings

Logger = structlog.typing.FilteringBoundLogger

_encoder = msgspec.json.Encoder(enc_hook=repr)

_SECRET_WORDS = ("password", "token", "secret", "authorization", "credentials", "seed")


@lru_cache(maxsize=1024)
def _is_secret(key: str) -> bool:
    lowered = key.lower()
    return any(word in lowered for word in _SECRET_WORDS)


def _mask(_: Any, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    for key in line:
        if _is_secret(key) and line[key]:
            line[key] = "***"
    return line


def _stamp(_: Any, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    line["timestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return line


def _json(_: Any, __: str, line: structlog.typing.EventDict) -> str:
    try:
        # One space after colons and commas, which is what people grep for.
        return msgspec.json.format(_encoder.encode(line), indent=0).decode()
    except (TypeError, ValueError, OverflowError):  # a number beyond 64 bits, a key that is no text
        return json.dumps(line, default=repr)


def _part_of_library(
    _: Any, __: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    record = line.get("_record")
    if record is not None:
        line.setdefault("part", record.name.split(".", 1)[0])
    return line


class _Lines:
    """Writes lines. A stream that is closed or full loses them; the caller goes on."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, *_: object) -> "_Lines":
        return self

    def info(self, line: str) -> None:
        try:
            self._out.write(line + "\n")
            self._out.flush()
        except (OSError, ValueError):
            return

    debug = warning = error = critical = exception = info


def configure(settings: "LogSettings", stream: TextIO | None = None) -> None:
    """Set up logging for this process; later calls replace earlier ones.

    `stream` defaults to stderr. Format `auto` means console when the stream is a terminal.
    """
    out = stream if stream is not None else sys.stderr
    console = settings.format == "console" or (settings.format == "auto" and out.isatty())
    level = logging.getLevelName(settings.level.upper())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        _stamp,
        _mask,
    ]
    last: list[structlog.typing.Processor]
    if console:
        last = [structlog.dev.ConsoleRenderer(colors=out.isatty())]
    else:
        last = [structlog.processors.format_exc_info, _json]
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _part_of_library],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("nats").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Our own lines do not go through `logging`, which takes most of the time that a line costs.
    structlog.configure(
        processors=[*shared, *last],
        logger_factory=_Lines(out),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )


def get_logger(part: str) -> Logger:
    """Return a logger whose lines carry `part`."""
    # Initial values instead of bind: bind would freeze the set-up of this moment, and modules make
    # their loggers when they are imported.
    logger: Logger = structlog.get_logger(f"gatelog.{part}", part=part)
    return logger


def use_defaults() -> None:
    """Be quiet until `configure`: warnings and errors go to stderr through `logging`, no more."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_log_level,
            _mask,
            structlog.processors.KeyValueRenderer(key_order=["event", "level"]),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


# structlog's own default prints everything to stdout, which belongs to commands' output.
if not structlog.is_configured():
    use_defaults()
