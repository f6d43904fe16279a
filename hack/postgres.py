"""A PostgreSQL server for tests and benchmarks: the server of Debian, on loopback, as a process of an ordinary user.

PostgreSQL refuses to run as root. If the tests run as root, the server runs as the user `nobody`. The data is in a
separate folder, which is removed together with the server. Other users of this machine need the password, which is in
the file `PGPASSFILE`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack import debian
from hack.processes import becomes_ready, free_ports, spawn

USER = "records"
READER = "reader"
"""A role that may only SELECT."""
START_SECONDS = 60.0


def is_installed() -> bool:
    """Whether it need not be unpacked."""
    return bool(_installed())


def _installed() -> list[Path]:
    """Return the folders of the installed servers' programs, the newest last."""
    binaries = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return [path.parent for path in sorted(binaries, key=lambda path: int(path.parts[4]))]


def programs() -> Path:
    """The folder of the server's programs: the newest that is installed, or unpacked. Raises PackageError."""
    if installed := _installed():
        return installed[-1]
    return next(debian.find(debian.POSTGRESQL).glob("usr/lib/postgresql/*/bin"))


class PostgresServer:
    """A server with a folder; `start`, `kill` and `start` again. Not thread-safe."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        """`folder` is empty, and every user of this machine may enter it. `durable`: its writes survive its death."""
        self._folder = folder
        self._data = folder / "data"
        self._durable = durable
        self._programs = programs()
        self._environment = dict(os.environ)
        if not is_installed():
            self._environment = debian.environment(debian.find(debian.POSTGRESQL))
        self._who: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._who = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(folder, "nobody", "nogroup")
        [self.port] = free_ports(1)
        self.password = secrets.token_hex(8)
        self.passfile = folder / "passfile"
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make its data, and start it."""
        password = self._folder / "password"
        password.write_text(self.password)
        password.chmod(0o644)
        self.passfile.write_text(f"*:*:*:*:{self.password}\n")
        self.passfile.chmod(0o600)
        options = ["--no-sync", "--no-locale", "--encoding=UTF8", "--auth=scram-sha-256", f"--username={USER}"]
        command: list[str | Path] = [
            self._programs / "initdb",
            f"--pgdata={self._data}",
            f"--pwfile={password}",
            *options,
        ]
        with (self._folder / "initdb.log").open("wb") as log:
            subprocess.run(
                command, cwd=self._folder, env=self._environment, check=True, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, **self._who,
            )  # fmt: skip
        self.start()
        self.execute(f"CREATE ROLE {READER} LOGIN PASSWORD '{self.password}'")

    def start(self) -> None:
        """Start it. Raises RuntimeError."""
        sync = "on" if self._durable else "off"
        settings = {"fsync": sync, "synchronous_commit": sync, "full_page_writes": sync, "max_connections": "200"}
        command: list[Any] = [self._programs / "postgres", "-D", self._data, "-p", str(self.port)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self._folder}"]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        log = self._folder / "log"
        self._process = spawn(command, log, cwd=self._folder, env=self._environment, **self._who)
        if not becomes_ready(self._process, self._answers, START_SECONDS):
            raise RuntimeError(f"PostgreSQL does not start: {log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it at once, as the death of its machine would."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """End it when its transactions have ended, which are cancelled."""
        self._end(signal.SIGINT)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(60)

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement as the owner of all."""
        import psycopg

        with psycopg.connect(self._url(database), autocommit=True, passfile=str(self.passfile)) as connection:
            connection.execute(statement.encode())

    def database(self, name: str) -> str:
        """Make a database in which `READER` may read what will be; return its URL."""
        self.execute(f'CREATE DATABASE "{name}"')
        self.execute(f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {READER}", name)
        return self._url(name)

    def _url(self, name: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{name}"

    def _answers(self) -> bool:
        import psycopg

        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[PostgresServer]:
    """A server, until the end. Raises PackageError, RuntimeError."""
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = PostgresServer(folder, durable=durable)
        server.make()
        try:
            yield server
        finally:
            server.kill()
