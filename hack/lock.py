"""Write the lock files: every dependency with the hashes of all its files, on every platform.

People edit the versions in `constraints.txt`. This program makes the lock files from `constraints.txt` and `setup.cfg`.
A lock file begins with references to the lock files that it extends, so that each package is in only one lock file.

    python -m hack.lock              # after a change of setup.cfg, requirements/*.in or constraints.txt: some seconds
    python -m hack.lock --upgrade    # the newest versions that setup.cfg allows, into constraints.txt too
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
FOLDER = ROOT / "requirements"
OVERRIDES = FOLDER / "overrides.txt"
OLDEST_PYTHON = "3.11"
RESOLVE_SECONDS = 300.0


class Lock(msgspec.Struct, frozen=True):
    """One lock: its sources, the lock that it extends, and requirements that are never imported there."""

    name: str
    sources: tuple[str, ...]
    extras: tuple[str, ...] = ()
    extends: str = ""
    leaves_out: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where it lies."""
        return FOLDER / f"{self.name}.lock"


# The kubernetes package has an asynchronous half that nothing here imports, and the image has not.
_ASYNCHRONOUS = (
    "aiohappyeyeballs", "aiohttp", "aiohttp-retry", "aiosignal", "attrs", "frozenlist", "multidict", "propcache",
    "yarl",
)  # fmt: skip

LOCKS = (
    Lock("installer", ("requirements/installer.in",)),
    Lock("build", ("requirements/build.in",)),
    Lock("operator", ("requirements/operator.in",), leaves_out=_ASYNCHRONOUS),
    Lock("run", ("setup.cfg", "requirements/build.in"), ("examples",), extends="operator"),
    Lock(
        "dev",
        ("setup.cfg", "requirements/build.in"),
        (
            "examples",
            "jax",
            "docker",
            "gpu",
            "pipeline",
            "postgres",
            "objects",
            "mcp",
            "test",
            "lint",
            "bench",
            "docs",
            "release",
        ),
        extends="run",
    ),
)
"""The locks of the Makefile's own installations, of the image's build stage (two), of `make run` and of tests."""


class LockError(Exception):
    """The dependencies can't be resolved; the message is the resolver's."""


def entries(text: str) -> list[str]:
    """The requirements of a lock, each with its marker and hashes, in their order; comments and `-r` are left out."""
    joined = re.sub(r" *\\\n *", " ", text)
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith(("#", "-", " "))]


def versions(text: str) -> dict[str, str]:
    """The versions in a lock or in constraints, by canonical name."""
    matches = (re.match(r"([A-Za-z0-9._-]+)==([^ ;]+)", entry) for entry in entries(text))
    return {canonical(match[1]): match[2] for match in matches if match}


def canonical(name: str) -> str:
    """A project's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def with_versions(constraints: str, wanted: dict[str, str]) -> str:
    """Return constraints with exactly these versions; lines that are already right keep their spelling."""
    lines = {canonical(name): line for line in entries(constraints) for name in [line.partition("==")[0]]}
    for name, version in wanted.items():
        if lines.get(name, "").partition("==")[2] != version:
            lines[name] = f"{lines.get(name, name).partition('==')[0]}=={version}"
    return "".join(f"{lines[name]}\n" for name in sorted(wanted))


def render(lock: Lock, resolved: list[str], known: set[str]) -> str:
    """A lock's text; `known` are the entries of the locks that it extends."""
    head = "# Made by `make lock` from setup.cfg, requirements/*.in and constraints.txt. Don't edit.\n"
    extended = f"-r {lock.extends}.lock\n" if lock.extends else ""
    own = [entry.replace(" --hash=", " \\\n    --hash=") for entry in resolved if entry not in known]
    return head + extended + "".join(f"{entry}\n" for entry in own)


def resolve(lock: Lock, constraints: str) -> list[str]:
    """The entries that a lock needs, within constraints. Asks the package index. Raises LockError."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", prefix="constraints-") as file:
        file.write(constraints)
        file.flush()
        command = [
            sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", f"--python-version={OLDEST_PYTHON}",
            "--generate-hashes", "--no-annotate", "--no-header", "--fork-strategy=fewest", "--no-sources",
            f"--constraints={file.name}", f"--overrides={OVERRIDES}", *(f"--extra={name}" for name in lock.extras),
            *(f"--no-emit-package={name}" for name in lock.leaves_out), *lock.sources,
        ]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=RESOLVE_SECONDS)
    if done.returncode != 0:
        raise LockError(f"the dependencies of {lock.path.name} can't be resolved:\n{done.stderr.strip()}")
    return entries(done.stdout)


def write(*, upgrade: bool) -> None:
    """Write all locks, and into `constraints.txt` what they say. Raises LockError."""
    before = CONSTRAINTS.read_text()
    # The largest set decides: its versions, and the platforms for which it needs a package, hold for all.
    largest = {_name(entry): entry for entry in resolve(LOCKS[-1], "" if upgrade else before)}
    constraints = with_versions(before, versions("\n".join(largest.values())))
    contents: dict[str, set[str]] = {"": set()}
    texts: dict[Path, str] = {}
    for lock in LOCKS:
        resolved = [largest[_name(entry)] for entry in resolve(lock, constraints)]
        texts[lock.path] = render(lock, resolved, contents[lock.extends])
        contents[lock.name] = contents[lock.extends] | set(resolved)
    for path, text in {CONSTRAINTS: constraints, **texts}.items():
        path.write_text(text)


def _name(entry: str) -> str:
    return canonical(entry.partition("==")[0])


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m hack.lock", description="Write constraints.txt and the locks.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that setup.cfg allows")
    try:
        write(upgrade=parser.parse_args(arguments).upgrade)
    except LockError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
