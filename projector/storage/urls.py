"""The read model's URL, and the file of a URL that names SQLite.

Theory. Apart from `database`, whose imports take longer than most queries.

Invariant: SQLAlchemy is not imported.
"""

from pathlib import Path

from runtime.settings import READ_MODEL_FILE, Settings

_SQLITE = "sqlite:///"


class DatabaseError(Exception):
    """The database cannot be used as it is; the message says why and what to do."""


class DatabaseUnavailable(DatabaseError):
    """The database does not answer; trying again later may help."""


def database_url(settings: Settings) -> str:
    """Return the URL of the read model: the setting, or SQLite in the state directory."""
    if settings.database.url:
        return settings.database.url
    return f"{_SQLITE}{Path(settings.state_dir).resolve() / READ_MODEL_FILE}"


def sqlite_file(url: str) -> Path | None:
    """Return the file that a URL names plainly, None for any other URL.

    Raises:
        DatabaseError: there is no such file (it is not made by reading).
    """
    name = url.removeprefix(_SQLITE)
    if name == url or name in ("", ":memory:") or "?" in name:
        return None
    file = Path(name).absolute()  # a link leads to the file in force
    if not file.exists():
        raise DatabaseError(f"{name}: no such database; has a projector run here yet?")
    return file
