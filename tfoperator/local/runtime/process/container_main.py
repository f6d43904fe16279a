"""The first program of a container that runs as a process and has volumes.

It makes a mount namespace, and then replaces itself with the container's program. The modes of this program are:

- `run`: make a namespace with the mounts in the arguments, and run the container's program in it.
- `enter`: enter the namespace of a running container, for `exec`.
- `probe`: check whether this machine permits such namespaces.

This program runs in an isolated Python (`COMMAND`) and imports only small parts of the standard library. The imports of
`typing`, `enum` and the modules they need would take longer than the rest of the program.

An ordinary user may make a mount namespace only together with a user namespace. In this user namespace, all user and
group IDs stay the same: user_namespaces(7), mount_namespaces(7). The kernel removes the namespaces and their mounts
when the last process in them ends.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` makes enums of the same constants, in 8 ms
import ctypes
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # type checkers take the constant for true
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 1
_MS_REMOUNT = 32
_MS_BIND = 4096
_MS_REC = 16384
_MS_SLAVE = 1 << 19
_MS_RELATIME = 1 << 21
_KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""The flags nosuid, nodev, noexec, noatime and nodiratime, which have the same values in statvfs(3) and mount(2). In a
user namespace, a process may not remove these flags from a mount.
"""
_ST_RELATIME = 4096
_O_PATH = getattr(os, "O_PATH", 0)
"""`O_PATH` exists only on Linux. This program runs only on Linux; other systems import the module only for
`find_program`.
"""

READ_ONLY, WRITABLE = "ro", "rw"
COMMAND = (
    sys.executable, "-I", "-S", "-c",
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import container_main; container_main.main()",
    os.path.dirname(__file__),
)  # fmt: skip
"""The command that runs this program, without the program's arguments. The command imports the program as a module, so
Python uses its cached bytecode. If the command ran the file directly, Python would compile the file at each start.
"""

MISSING_DIRECTORY = "no-directory"
"""The message that the program reports if the wanted working directory does not exist. The container then starts in the
default directory.
"""


def encode(mirrors: Sequence[str], binds: Sequence[tuple[str, str, bool]]) -> list[str]:
    """Return the mounts of a container as arguments for this program, in the order in which the program makes them.

    - `mirrors` are the folders of the machine in which a mount path is missing. The program covers each of them with an
      empty folder in memory. The folder in memory gets all entries of the covered folder. The program can add the
      missing entries to it without changing the machine.
    - `binds` are triples: a folder or file of this machine, the path at which the container sees it, and whether the
      container may only read it.
    """
    parts = (
        part for source, target, read_only in binds for part in (source, target, READ_ONLY if read_only else WRITABLE)
    )
    return [str(len(mirrors)), *mirrors, str(len(binds)), *parts]


def decode(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str, bool]], list[str]]:
    """Return the `mirrors` and `binds` that `encode` has encoded (see there), and the arguments that follow.

    These other arguments are the command of the container.
    """
    after_mirrors = 1 + int(arguments[0])
    after_binds = after_mirrors + 1 + 3 * int(arguments[after_mirrors])
    fields = arguments[after_mirrors + 1 : after_binds]
    binds = [(fields[at], fields[at + 1], fields[at + 2] == READ_ONLY) for at in range(0, len(fields), 3)]
    return list(arguments[1:after_mirrors]), binds, list(arguments[after_binds:])


class ProgramError(Exception):
    """A container's program can't be started.

    `exit_code` follows the shell's convention: 126 means not executable, 127 means not found.
    """

    def __init__(self, message: str, exit_code: int = 127) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def find_program(name: str, environment: Mapping[str, str], directory: str) -> str:
    """Return the program's path.

    If `name` contains a slash, it is a path, and a relative path starts at `directory`. Otherwise search PATH. If
    `name` is `python` or `python3` and is not found on PATH, return this interpreter. Raises ProgramError if the
    program is not found or not executable.
    """
    path = environment.get("PATH", os.defpath)
    if os.sep in name:
        wanted = os.path.join(directory, name)
        if not os.path.exists(wanted):
            raise ProgramError(f"{name!r} does not exist (in {directory})")
        if not os.access(wanted, os.X_OK):
            raise ProgramError(f"{name!r} is not executable", 126)
        return wanted
    for folder in path.split(os.pathsep):
        program = os.path.join(directory, folder or os.curdir, name)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    if name in ("python", "python3"):
        return sys.executable
    if name == "tensorboard":
        raise ProgramError("TensorBoard is not installed on this machine. To install it: pip install tensorboard")
    raise ProgramError(f"program {name!r} not found on PATH ({path})")


def make_namespace(mirrors: Sequence[str], binds: Sequence[tuple[str, str, bool]]) -> None:
    """Give this process a mount namespace with these mounts: see `encode`. Raises OSError, which names the path."""
    user, group = os.geteuid(), os.getegid()
    if _libc().unshare(_CLONE_NEWNS) != 0:
        _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNS)
        _write("/proc/self/setgroups", "deny")  # else the kernel accepts no map of groups
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    # Later mounts of the machine appear in this namespace; mounts of this namespace do not appear on the machine.
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)
    # Open all sources before the first mount: a mount may hide the source of another mount.
    sources = [os.open(source, _O_PATH | os.O_CLOEXEC) for source, _, _ in binds]
    for folder in mirrors:
        _mirror(folder)
    for source, (_, target, read_only) in zip(sources, binds, strict=True):
        _bind(source, target, read_only=read_only)
        os.close(source)


def _bind(source: int, target: str, *, read_only: bool) -> None:
    if not os.path.lexists(target):  # this happens only in a mirror: all other targets exist
        _make_target(target, folder=stat.S_ISDIR(os.fstat(source).st_mode))
    _mount(f"/proc/self/fd/{source}", target, None, _MS_BIND | _MS_REC)
    if read_only:
        flags = os.statvfs(target).f_flag
        kept = flags & _KEPT_FLAGS | (_MS_RELATIME if flags & _ST_RELATIME else 0)
        _mount(None, target, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)


def _mirror(folder: str) -> None:
    """Cover a folder with an empty folder in memory, and bind the entries of the covered folder there."""
    mode = os.stat(folder).st_mode & 0o7777
    covered = os.open(folder, _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        names = os.listdir(folder)
    except PermissionError:  # the container's program may not list the folder, either
        names = []
    _mount("tmpfs", folder, "tmpfs", 0, f"mode={mode:o}")
    if folder == "/":
        # The process is still in the covered root folder. `/..` leads to the folder that covers it.
        os.chdir("/..")
        at = os.curdir
    else:
        at = folder
    for name in names:
        _mirror_entry(covered, name, os.path.join(at, name))
    if folder == "/":
        os.chroot(os.curdir)
        os.chdir("/")
    os.close(covered)


def _mirror_entry(covered: int, name: str, target: str) -> None:
    try:
        mode = os.stat(name, dir_fd=covered, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=covered), target)
            return
        _make_target(target, folder=stat.S_ISDIR(mode))
        _mount(f"/proc/self/fd/{covered}/{name}", target, None, _MS_BIND | _MS_REC)
    except FileNotFoundError:
        pass  # removed meanwhile


def _make_target(path: str, *, folder: bool) -> None:
    if folder:
        os.makedirs(path, 0o755, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path) or os.curdir, 0o755, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def enter_namespace(pid: int) -> None:
    """Enter the mount namespace of a process.

    If the process has another user namespace, enter that namespace first. Raises OSError.
    """
    for kind, name in ((_CLONE_NEWUSER, "user"), (_CLONE_NEWNS, "mnt")):
        theirs = f"/proc/{pid}/ns/{name}"
        if os.stat(theirs).st_ino == os.stat(f"/proc/self/ns/{name}").st_ino:
            continue
        descriptor = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
        _call("setns", descriptor, kind)
        os.close(descriptor)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    if _libc().mount(*texts[:3], ctypes.c_ulong(flags), texts[3]) != 0:
        raise _last_error(target)


def _call(function: str, *arguments: int) -> None:
    if getattr(_libc(), function)(*arguments) != 0:
        raise _last_error(function)


def _last_error(about: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), about)


def _write(file: str, text: str) -> None:
    with open(file, "w") as opened:
        opened.write(text)


def _choose_directory(wanted: str, default: str, report: Callable[[str], object]) -> str:
    """Change to the wanted directory if it exists, else to the default directory; return the directory.

    In the second case, `report` is called with MISSING_DIRECTORY. Raises ProgramError if neither can be entered.
    """
    chosen = os.path.join(default, wanted)
    try:
        os.chdir(chosen)
    except OSError:
        report(MISSING_DIRECTORY)
        chosen = default
        try:
            os.chdir(chosen)
        except OSError as error:
            raise ProgramError(f"can't start in {chosen}: {error.strerror}") from None
    return chosen


def _environment() -> dict[str, str]:
    """Return the environment with which this program was started. Python may have changed its own copy (PEP 538)."""
    with open("/proc/self/environ", "rb") as stream:
        pairs = (os.fsdecode(entry).partition("=") for entry in stream.read().split(b"\0") if entry)
        return {name: value for name, _, value in pairs}


def _become(command: list[str], directory: str) -> None:
    """Replace this program with the container's program. Raises ProgramError."""
    environment = _environment()
    program = find_program(command[0], environment, directory)
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # Python ignores these signals, and the program would inherit this
    try:
        os.execve(program, command, environment)
    except OSError as error:
        code = 126 if isinstance(error, PermissionError) else 127
        raise ProgramError(f"can't start {command[0]!r} in {directory}: {error.strerror}", code) from None


def _run(arguments: list[str]) -> None:
    """Run the mode `run REPORT WANTED DEFAULT MOUNTS COMMAND`: REPORT is the descriptor of a pipe.

    The program starts in the directory WANTED, or in the directory DEFAULT if WANTED does not exist. MOUNTS is the
    result of `encode`. The pipe closes when the container's program starts. A line `no-directory` in the pipe is a
    warning: WANTED does not exist. A line with an exit code and a message is the reason why the program can't run.
    """
    descriptor, wanted, default = int(arguments[0]), arguments[1], arguments[2]
    os.set_inheritable(descriptor, False)

    def report(line: str) -> None:
        os.write(descriptor, f"{line}\n".encode(errors="surrogateescape"))

    try:
        mirrors, binds, command = decode(arguments[3:])
        try:
            make_namespace(mirrors, binds)
        except OSError as error:
            raise ProgramError(f"a volume can't be mounted at {error.filename}: {error.strerror}") from None
        _become(command, _choose_directory(wanted, default, report))
    except ProgramError as error:
        report(f"{error.exit_code} {error}")
        sys.exit(error.exit_code)


def _enter(arguments: list[str]) -> None:
    """Run the mode `enter PID DIRECTORY COMMAND`.

    This mode runs COMMAND in the directory DIRECTORY, in the namespace of the container whose first process has the ID
    PID.
    """
    pid, directory, command = int(arguments[0]), arguments[1], arguments[2:]
    try:
        enter_namespace(pid)
        os.chdir(directory)
        _become(command, directory)
    except ProgramError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    except OSError as error:
        sys.stderr.write(f"can't switch to the container's namespaces: {error.strerror}\n")
        sys.exit(126)


def _probe() -> None:
    """Run the mode `probe`: exit with 0 if this machine permits mount namespaces, else with 1 and the reason."""
    try:
        make_namespace(["/"], [])
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        sys.exit(1)


def main() -> None:
    """Run the mode that the first argument names."""
    mode, arguments = sys.argv[1], sys.argv[2:]
    if mode == "run":
        _run(arguments)
    elif mode == "enter":
        _enter(arguments)
    else:
        _probe()


if __name__ == "__main__":
    main()
