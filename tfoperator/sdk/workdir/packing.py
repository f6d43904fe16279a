"""Packs a folder: which files travel, and one archive of them whose bytes depend on their names and contents alone.

What travels is what git sees (tracked, or neither tracked nor ignored), without git everything; in either case less
what `.tfoperatorignore` names, by the rules of a .gitignore. Git's own folder and tfoperator's runs never travel;
`tfoperator.progress` does, for programs that report and images that lack it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

import tfoperator
from tfoperator.base.files import open_regular
from tfoperator.sdk.errors import WorkdirError

IGNORE_FILE = ".tfoperatorignore"
MAX_BYTES = 100 << 20
"""The default limit of a folder's size before compression."""

_HEADER = 512  # bytes of a file in an archive, beside its content
_NEVER = {".git", ".tfoperator"}
_OWN = Path(tfoperator.__file__).parent
_SECRET = re.compile(r"(.*/)?(\.env(\..*)?|id_(rsa|dsa|ecdsa|ed25519)|\.netrc|\.pypirc|[^/]*\.(pem|key|p12|pfx))")


class Package(msgspec.Struct, frozen=True):
    """A packed folder: the gzipped tar, its SHA-256 in hex, the files' names, and those that may be secrets."""

    content: bytes
    digest: str
    names: frozenset[str]
    secrets: tuple[str, ...]


class _Entry(NamedTuple):
    """What tells that a file is still the same. No program can set `changed`, and a renamed file has another one."""

    mode: int
    size: int
    inode: int
    changed: int
    link: str


def pack(folder: Path, max_bytes: int = MAX_BYTES) -> Package:
    """Pack a folder, all of it as it is at one time. Raises WorkdirError, OSError with the file's name.

    A folder that changes meanwhile is packed once more; one that changes again is refused.
    """
    changed: list[str] = []
    for _ in range(2):
        before = _survey(folder)
        _check(folder, before, max_bytes)
        failure, content = None, b""
        try:
            content = _archive(folder, before)
        except OSError as error:  # of a file that went, or of one that can't be read
            failure = error
        changed = sorted({name for name, _ in before.items() ^ _survey(folder).items()})
        if failure is not None and not changed:
            raise failure
        if not changed:
            secrets = tuple(filter(_SECRET.fullmatch, before))
            return Package(content, hashlib.sha256(content).hexdigest(), frozenset(before), secrets)
    raise WorkdirError(
        f"{', '.join(map(repr, changed[:5]))} changed while {folder} was packed, and again when it was packed anew: "
        f"wait until nothing writes there, or name it in {IGNORE_FILE}"
    )


def _survey(folder: Path) -> dict[str, _Entry]:
    """Return what travels, sorted by name."""
    ignored = _rules(folder)
    names = _of_git(folder)
    found: dict[str, _Entry] = {}
    for name in sorted(_all(folder, ignored) if names is None else names):
        try:
            status = os.lstat(folder / name)
            link = os.readlink(folder / name) if stat.S_ISLNK(status.st_mode) else ""
        except (FileNotFoundError, NotADirectoryError):
            continue  # git knows of it, and it was removed
        if not ignored(name):
            found[name] = _Entry(status.st_mode, status.st_size, status.st_ino, status.st_ctime_ns, link)
    return found


def _rules(folder: Path) -> Callable[[str], bool]:
    from pathspec import GitIgnoreSpec  # here, since other commands have no use for it

    file = folder / IGNORE_FILE
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape") if file.exists() else ""
        rules = GitIgnoreSpec.from_lines(text.splitlines())
    except ValueError as error:
        raise WorkdirError(f"{file}: {error}") from None
    return lambda name: not _NEVER.isdisjoint(PurePosixPath(name).parts) or rules.match_file(name)


def _of_git(folder: Path) -> set[str] | None:
    """Return the files that git sees, those of submodules included; None if the folder is not git's."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"LC_ALL": "C"}
    # A repository's own settings may name a program, which this command would run.
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "-coz", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=folder, env=own, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        if any((parent / ".git").exists() for parent in (folder, *folder.parents)):
            raise WorkdirError(f"{folder} is git's: install git, for what it ignores must not travel") from None
        return None
    if done.returncode and b"not a git repository" in done.stderr:
        return None
    if done.returncode:
        raise WorkdirError(f"{folder}: git does not list its files: {os.fsdecode(done.stderr).strip()}")
    found: set[str] = set()
    for name in (os.fsdecode(word).rstrip("/") for word in done.stdout.split(b"\0") if word):
        path = folder / name
        if path.is_symlink() or not path.is_dir():
            found.add(name)
        elif (path / ".git").exists():  # a repository in this one
            found |= {f"{name}/{inner}" for inner in _of_git(path) or ()}
    return found


def _all(folder: Path, ignored: Callable[[str], bool]) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=refuse):
        inside = PurePosixPath(Path(place).relative_to(folder))
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        yield from (str(inside / name) for name in (*files, *links))
        folders[:] = [name for name in folders if not ignored(f"{inside / name}/")]


def _check(folder: Path, files: Mapping[str, _Entry], max_bytes: int) -> None:
    if not files:
        raise WorkdirError(f"{folder}: no file travels: there is none, or git or {IGNORE_FILE} ignores them all")
    top = os.path.realpath(folder)
    for name, entry in files.items():
        target = os.path.realpath(folder / name) if entry.link else top
        if os.path.isabs(entry.link) or os.path.commonpath((top, target)) != top:
            raise WorkdirError(f"{name!r} is a link to {entry.link!r}, out of {folder}: name it in {IGNORE_FILE}")
        if not entry.link and not stat.S_ISREG(entry.mode):
            raise WorkdirError(f"{name!r} is no file, folder or link, and can't travel: name it in {IGNORE_FILE}")
    total = sum(_HEADER + entry.size for entry in files.values())
    if total > max_bytes:
        largest = sorted(files, key=lambda name: -files[name].size)[:5]
        sizes = ", ".join(f"{name!r} ({mebibytes(files[name].size)})" for name in largest)
        raise WorkdirError(
            f"{folder} has {mebibytes(total)} in {len(files)} files, more than {mebibytes(max_bytes)}. The largest: "
            f"{sizes}. Name in {IGNORE_FILE} what replicas don't need, or allow more"
        )


def _archive(folder: Path, files: Mapping[str, _Entry]) -> bytes:
    written = io.BytesIO()
    form = {"format": tarfile.GNU_FORMAT, "encoding": "utf-8", "errors": "surrogateescape"}
    with (
        gzip.GzipFile("", "wb", 6, written, mtime=0) as squeezed,
        tarfile.TarFile(mode="w", fileobj=squeezed, **form) as tar,  # type: ignore[arg-type]
    ):
        for name, entry in files.items():
            member = tarfile.TarInfo(name)  # with time, owner and group 0
            if entry.link:
                member.type, member.linkname = tarfile.SYMTYPE, entry.link
                tar.addfile(member)
                continue
            member.size, member.mode = entry.size, 0o755 if entry.mode & 0o100 else 0o644
            with open_regular(folder / name) as stream:
                tar.addfile(member, stream)
        for path in sorted((_OWN / "__init__.py", *_OWN.glob("progress/*.py"))):
            content, member = path.read_bytes(), tarfile.TarInfo(f".tfoperator/{path.relative_to(_OWN.parent)}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return written.getvalue()


def mebibytes(size: int) -> str:
    """Return a number of bytes in MiB."""
    return f"{size / (1 << 20):.1f} MiB"
