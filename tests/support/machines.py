"""Commands that start a program as on another machine: as an ordinary user, or where mount namespaces are forbidden."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ORDINARY_USER = 65534
"""The user `nobody` of Debian."""

# With the right to read files, since the interpreter of the tests may lie in root's home: it is no right to mount.
AS_ORDINARY_USER = (
    "setpriv", f"--reuid={ORDINARY_USER}", f"--regid={ORDINARY_USER}", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search", "--bounding-set=-all,+dac_read_search",
)  # fmt: skip
"""For tests that run as root: begin a command with this, to run it as an ordinary user."""

WITHOUT_NAMESPACES = (
    "unshare", "--user", "--map-root-user", "sh", "-c",
    "echo 0 > /proc/sys/user/max_user_namespaces; "
    'exec setpriv --bounding-set=-sys_admin --no-new-privs "$@"',
    "sh",
)  # fmt: skip
"""Begin a command with this, to run it where the kernel permits neither user namespaces nor mounts."""


@contextmanager
def folder_for_all() -> Iterator[Path]:
    """A folder that each user can reach and write to: `tmp_path` lies in a folder of the user who runs the tests."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def is_root() -> bool:
    """Whether the tests run as root."""
    return os.geteuid() == 0
