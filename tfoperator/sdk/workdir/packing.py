"""Packs a folder: chooses the files, and makes an archive of them.

The bytes of the archive depend only on the files' names, contents and execute permissions. With git, the archive
contains the files that git tracks, and the files that git neither tracks nor ignores. Without git, it contains all
files. In both cases, it leaves out the files that `.tfoperatorignore` names by the rules of a .gitignore. The archive
never contains git's own folder and tfoperator's runs. It contains `tfoperator.progress`, for programs that report their
progress in images that lack this package.
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
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

import tfoperator
from tfoperator.base.beneath import LeadsOut, components, open_beneath, opened_folder, status_beneath
from tfoperator.sdk.errors import WorkdirError

IGNORE_FILE = ".tfoperatorignore"
MAX_BYTES = 100 << 20
"""The default limit of a folder's size before compression, in bytes."""

_MAX_RULES = 1 << 20  # the maximum size of `.tfoperatorignore` in bytes
_HEADER = 512  # bytes that a tar archive adds to each file's content
_NEVER = {".git", ".tfoperator"}
_OWN = Path(tfoperator.__file__).parent
_SECRET = re.compile(r"(.*/)?(\.env(\..*)?|id_(rsa|dsa|ecdsa|ed25519)|\.netrc|\.pypirc|[^/]*\.(pem|key|p12|pfx))")


class Package(msgspec.Struct, frozen=True):
    """A packed folder: the gzipped tar, its SHA-256 in hex, and the names of its files.

    `secrets` are the files whose names suggest secrets, for example `.env`.
    """

    content: bytes
    digest: str
    names: frozenset[str]
    secrets: tuple[str, ...]


class _Entry(NamedTuple):
    """The properties of a file.

    If they are equal at two times, the file is unchanged. `changed` is the ctime in ns, which programs can't set, and
    which every change and rename updates.
    """

    mode: int
    size: int
    inode: int
    changed: int
    link: str


def pack(folder: Path, max_bytes: int = MAX_BYTES) -> Package:
    """Pack a folder. The archive contains all files as they were at one moment.

    Raises WorkdirError if the folder can't be packed, for example because it has more than `max_bytes`. Raises OSError
    with the name of a file that can't be read. A file is read only if its parent folders are real folders below
    `folder`, and not symbolic links.

    If the folder changes meanwhile, it is packed a second time. If the folder changes again, the function raises
    WorkdirError.
    """
    changed: list[str] = []
    for _ in range(2):
        before = _survey(folder)
        _check(folder, before, max_bytes)
        failure: Exception | None = None
        content = b""
        try:
            content = _archive(folder, before)
        except (OSError, LeadsOut) as error:  # a file was removed, became a link, or can't be read
            failure = error
        changed = sorted({name for name, _ in before.items() ^ _survey(folder).items()})
        if failure is not None and not changed:
            raise WorkdirError(str(failure)) if isinstance(failure, LeadsOut) else failure
        if not changed:
            secrets = tuple(filter(_SECRET.fullmatch, before))
            return Package(content, hashlib.sha256(content).hexdigest(), frozenset(before), secrets)
    raise WorkdirError(
        f"{', '.join(map(repr, changed[:5]))} changed twice while {folder} was packed: wait until no program writes "
        f"there, or list these files in {IGNORE_FILE}"
    )


def _survey(folder: Path) -> dict[str, _Entry]:
    """Return the files to pack, sorted by name."""
    with opened_folder(folder) as root:
        ignored = _rules(folder, root)
        names = _of_git(folder, ignored)
        names = set(_all(folder, ignored)) if names is None else names
        entries: dict[str, _Entry] = {}
        for name in sorted(names):
            if ignored(name) or _is_behind(name, names):
                continue
            try:
                status, link = status_beneath(root, name)
            except (FileNotFoundError, NotADirectoryError):
                continue  # git lists the file, but it was removed
            except LeadsOut as error:
                raise WorkdirError(f"{folder}: {error}: list the link in {IGNORE_FILE}") from None
            entries[name] = _Entry(status.st_mode, status.st_size, status.st_ino, status.st_ctime_ns, link)
    return entries


def _is_behind(name: str, names: Set[str]) -> bool:
    """Return whether a parent path of the file is itself a file or link to pack, because it replaced a folder.

    In this case, git still lists the files that the folder contained.
    """
    return any(str(parent) in names for parent in PurePosixPath(name).parents)


def _rules(folder: Path, root: int) -> Callable[[str], bool]:
    from pathspec import GitIgnoreSpec  # here, since other commands have no use for it

    try:
        with open_beneath(root, IGNORE_FILE) as stream:
            text = stream.read(_MAX_RULES + 1).decode("utf-8", errors="surrogateescape")
    except FileNotFoundError:
        text = ""
    except (LeadsOut, OSError) as error:
        raise WorkdirError(f"{folder}: {IGNORE_FILE} can't be read: {error}") from None
    if len(text) > _MAX_RULES:
        raise WorkdirError(f"{folder / IGNORE_FILE} has more than {mebibytes(_MAX_RULES)}: shorten this file")
    try:
        rules = GitIgnoreSpec.from_lines(text.splitlines())
    except ValueError as error:
        raise WorkdirError(f"{folder / IGNORE_FILE}: {error}") from None
    return lambda name: not _NEVER.isdisjoint(PurePosixPath(name).parts) or rules.match_file(name)


_GIT_ENVIRONMENT = {"LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
"""With these variables, git fetches nothing if a repository lacks objects. The repository's settings may name a program
that fetches.
"""

_GIT_SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.bareRepository=explicit")
"""These options keep git from running programs that the settings of a foreign repository name. Because of the last
option, git refuses a bare repository inside another repository, whose files may contain such settings.
"""


_GIT_ERROR = re.compile(rb"^(error|fatal):", re.MULTILINE)


def _of_git(folder: Path, ignored: Callable[[str], bool]) -> set[str] | None:
    """Return the files that git lists, including files of submodules. Return None if the folder is in no repository.

    Of a submodule, and of another repository in the folder, git lists only the name. If `ignored` returns True for this
    name, the files of the submodule or repository are left out.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _GIT_ENVIRONMENT
    command = ["git", *_GIT_SETTINGS, "ls-files", "-coz", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=folder, env=own, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        if any((parent / ".git").exists() for parent in (folder, *folder.parents)):
            raise WorkdirError(
                f"{folder} is a git repository: install git, because files that git ignores must not be copied"
            ) from None
        return None
    if done.returncode and b"not a git repository" in done.stderr:
        return None
    # After an error, git may continue and exit with 0, but without the files that it could not read.
    if done.returncode or _GIT_ERROR.search(done.stderr):
        raise WorkdirError(f"{folder}: git can't list its files: {os.fsdecode(done.stderr).strip()}")
    names: set[str] = set()
    for name in (os.fsdecode(word).rstrip("/") for word in done.stdout.split(b"\0") if word):
        names |= _in_folder(folder, name, ignored)
    return names


def _in_folder(folder: Path, name: str, ignored: Callable[[str], bool]) -> set[str]:
    """Return the files for a name in git's list: the name itself for a file, and the files in the folder for a folder.

    Git lists a folder, without its files, if the folder is a submodule or another repository. A submodule that was not
    fetched is empty. Raises WorkdirError if the folder contains files but no `.git`: then git can't list the files.
    """
    try:
        components(name)
    except LeadsOut as error:
        raise WorkdirError(f"{folder}: git lists a file that is outside of the folder: {error}") from None
    path = folder / name
    if path.is_symlink() or not path.is_dir():
        return {name}
    if os.path.realpath(path) != os.path.join(os.path.realpath(folder), *PurePosixPath(name).parts):
        return {name}  # the path contains a symbolic link; `_survey` refuses it later
    if ignored(f"{name}/"):
        return set()
    if (path / ".git").exists():
        inside = _of_git(path, lambda inner: ignored(f"{name}/{inner}"))
        if inside is None:
            raise WorkdirError(f"{path} has a .git, but is not a git repository: list this folder in {IGNORE_FILE}")
        return {f"{name}/{inner}" for inner in inside}
    if any(path.iterdir()):
        raise WorkdirError(f"{path}: git can't list the files of this folder: list this folder in {IGNORE_FILE}")
    return set()


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
        raise WorkdirError(
            f"{folder}: there is no file to copy: the folder is empty, or git or {IGNORE_FILE} ignores all its files"
        )
    top = os.path.realpath(folder)
    for name, entry in files.items():
        target = os.path.realpath(folder / name) if entry.link else top
        if os.path.isabs(entry.link) or os.path.commonpath((top, target)) != top:
            why = "an absolute path" if os.path.isabs(entry.link) else f"outside of {folder}"
            raise WorkdirError(
                f"{name!r} is a symbolic link to {entry.link!r}, which is {why}: list the link in {IGNORE_FILE}"
            )
        if not entry.link and not stat.S_ISREG(entry.mode):
            raise WorkdirError(
                f"{name!r} is not a file, folder or link, so it can't be copied: list {name!r} in {IGNORE_FILE}"
            )
    total = sum(_HEADER + entry.size for entry in files.values())
    if total > max_bytes:
        largest = sorted(files, key=lambda name: -files[name].size)[:5]
        sizes = ", ".join(f"{name!r} ({mebibytes(files[name].size)})" for name in largest)
        raise WorkdirError(
            f"{folder} has {mebibytes(total)} in {len(files)} files, more than {mebibytes(max_bytes)}. The largest: "
            f"{sizes}. Name files that replicas don't need in {IGNORE_FILE}, or allow a larger size with --max-size"
        )


def _archive(folder: Path, files: Mapping[str, _Entry]) -> bytes:
    written = io.BytesIO()
    form = {"format": tarfile.GNU_FORMAT, "encoding": "utf-8", "errors": "surrogateescape"}
    with (
        opened_folder(folder) as root,
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
            with open_beneath(root, name) as stream:
                tar.addfile(member, stream)
        for path in sorted((_OWN / "__init__.py", *_OWN.glob("progress/*.py"))):
            content, member = path.read_bytes(), tarfile.TarInfo(f".tfoperator/{path.relative_to(_OWN.parent)}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return written.getvalue()


def mebibytes(size: int) -> str:
    """Return a number of bytes as a text in MiB, for example `1.5 MiB`."""
    return f"{size / (1 << 20):.1f} MiB"
