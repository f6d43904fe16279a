"""Make what a release consists of, in `dist/`: source, wheel, chart, notes, bills of materials, provenance, checksums.

    python -m hack.release            # everything, from the commit that is checked out
    python -m hack.release --sbom     # the bills of materials alone

The same commit gives the same bytes: the files come from git and not from the folder, and all times in the files are
the time of the commit (or `SOURCE_DATE_EPOCH`). This program does not sign or upload the files. The publisher does
this, with the publisher's own key. So the provenance is only a statement of the person who ran this program (SLSA build
level 1), and not a proof.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from hack.lock import LOCKS, ROOT, Lock
from hack.release_parts import NoNotes, chart_package, notes

DIST = ROOT / "dist"
CHART = "manifests/helm/tfoperator"
SBOM_LOCKS = tuple(lock for lock in LOCKS if lock.name in ("operator", "run"))
"""The locks of the image and of `make run`; the other locks are tools of developers."""
BUILD_TYPE = "urn:tfoperator:make-release:v1"
"""The type of a build by `make release` in a provenance; docs/contributing/dependencies.md explains its parameters."""
TOOL_SECONDS = 300.0


class ReleaseError(Exception):
    """A release can't be made; the message is the reason."""


def bill_of_materials(lock: Lock, target: Path, epoch: int) -> None:
    """Write what a lock installs as CycloneDX, checked against its schema by the tool. Raises ReleaseError."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "pyproject.toml")
        project.write_text(_project_table())
        whole = Path(folder, f"{lock.name}.txt")
        whole.write_text(_whole(lock))
        command = [
            "cyclonedx_py", "requirements", "--output-reproducible", "--validate", "--sv=1.6", f"--pyproject={project}",
            "--mc-type=application", f"--output-file={target}", str(whole),
        ]  # fmt: skip
        _run_tool(command, cwd=Path(folder), epoch=epoch)


def provenance(
    subjects: Mapping[str, str], *, version: str, revision: str, materials: Mapping[str, str]
) -> dict[str, Any]:
    """An in-toto statement with SLSA's provenance: which files were made, from which commit, with which locked tools.

    `subjects` and `materials` are SHA-256 digests by name.
    """
    source = {"name": "source", "digest": {"gitCommit": revision}}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"revision": revision, "version": version},
                "resolvedDependencies": [
                    source,
                    *({"name": name, "digest": {"sha256": digest}} for name, digest in sorted(materials.items())),
                ],
            },
            "runDetails": {"builder": {"id": os.environ.get("BUILDER_ID", "urn:tfoperator:somebodys-machine")}},
        },
    }


def checksums(folder: Path) -> str:
    """The SHA-256 sums of a folder's files, as `sha256sum --check` reads them."""
    return "".join(f"{_digest(path)}  {path.name}\n" for path in sorted(folder.iterdir()) if path.name != "SHA256SUMS")


def without_times(archive: bytes, epoch: int) -> bytes:
    """A source archive (.tar.gz) with one time in it, no owner, and its files in order."""
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source,
        gzip.GzipFile(fileobj=buffer, mode="wb", filename="", mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source, key=lambda entry: entry.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    return buffer.getvalue()


def release(target: Path) -> None:
    """Make a release of the commit that is checked out in `target`, which is emptied first. Raises ReleaseError."""
    commit = _git("rev-parse", "HEAD")
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct", commit))
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        _export(commit, source)
        build = ["build", "--no-isolation", "--sdist", "--wheel", f"--outdir={target}", str(source)]
        _run_tool(build, cwd=source, epoch=epoch)
        chart = {str(path.relative_to(source / CHART)): path.read_bytes() for path in _files(source / CHART)}
        changelog = (source / "CHANGELOG.md").read_text()
    for archive in target.glob("*.tar.gz"):
        archive.write_bytes(without_times(archive.read_bytes(), epoch))
    _run_tool(["twine", "check", "--strict", *map(str, sorted(target.iterdir()))], cwd=target, epoch=epoch)
    version = _setup()["metadata"]["version"]
    # Helm's own name for it, which differs from the source archive's by its ending alone.
    (target / f"tfoperator-{version}.tgz").write_bytes(chart_package(chart, "tfoperator", epoch))
    try:
        (target / f"tfoperator-{version}.notes.md").write_text(notes(changelog, version))
    except NoNotes as error:
        raise ReleaseError(str(error)) from error
    for lock in SBOM_LOCKS:
        bill_of_materials(lock, target / f"tfoperator-{version}.{lock.name}.cdx.json", epoch)
    subjects = {path.name: _digest(path) for path in target.iterdir()}
    materials = {f"requirements/{lock.path.name}": _digest(lock.path) for lock in LOCKS}
    statement = provenance(subjects, version=version, revision=commit, materials=materials)
    path = target / f"tfoperator-{version}.provenance.json"
    path.write_text(json.dumps(statement, indent=2, sort_keys=True) + "\n")
    (target / "SHA256SUMS").write_text(checksums(target))


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _whole(lock: Lock) -> str:
    """A lock with those that it extends: the tool reads one file."""
    extended = "".join(_whole(other) for other in LOCKS if other.name == lock.extends)
    return extended + "".join(
        f"{line}\n" for line in lock.path.read_text().splitlines() if not line.startswith(("#", "-r "))
    )


def _project_table() -> str:
    """Return the project's metadata in the form that the tool requires; setup.cfg has it in another form."""
    metadata = _setup()["metadata"]
    named = {key: metadata[key] for key in ("name", "version", "description", "license")}
    return "[project]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in named.items())


def _setup() -> ConfigParser:
    parsed = ConfigParser()
    parsed.read(ROOT / "setup.cfg")
    return parsed


def _export(commit: str, folder: Path) -> None:
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run_tool(command: Sequence[str], *, cwd: Path, epoch: int) -> None:
    """Run a module of this environment. Raises ReleaseError with the module's output."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
        capture_output=True, text=True, check=False, timeout=TOOL_SECONDS,
    )  # fmt: skip
    if done.returncode != 0:
        raise ReleaseError(f"{command[0]} failed:\n{done.stdout.strip()[-2000:]}\n{done.stderr.strip()[-2000:]}")


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m hack.release", description="Make a release in dist/.")
    parser.add_argument("--sbom", action="store_true", help="the bills of materials alone")
    only_bills = parser.parse_args(arguments).sbom
    try:
        if only_bills:
            DIST.mkdir(exist_ok=True)
            epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct"))
            for lock in SBOM_LOCKS:
                bill_of_materials(lock, DIST / f"{lock.name}.cdx.json", epoch)
        else:
            if _git("status", "--porcelain", "--untracked-files=no"):
                raise ReleaseError("there are changes that are not committed: a release is made of a commit")
            release(DIST)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    print(*sorted(str(path.relative_to(ROOT)) for path in DIST.iterdir()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
