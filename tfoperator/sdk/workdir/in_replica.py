"""Unpacks a folder that was sent with a TFJob, and then replaces itself with the program.

In a replica, `python3 -c` runs the text of this module. The script imports no code of this project, and runs with
Python 3.8 or later. The arguments are the archive's SHA-256 and size, a requirements file for pip or an empty word, and
the program with its arguments. Each start of a container unpacks the folder again. The folder gets its name only when
it is complete. The program starts in the folder, and PYTHONPATH contains the folder.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
from pathlib import Path
from typing import NoReturn

# A process of a laptop has no mounts: a variable contains the path of a volume.
SOURCE = os.environ.get("TFOPERATOR_MOUNT_TFOPERATOR_WORKDIR_SOURCE", "/tfoperator/workdir-source")
PLACE = os.environ.get("TFOPERATOR_MOUNT_TFOPERATOR_WORKDIR", "/tfoperator/workdir")
OWN = os.path.join(PLACE, "own-packages")  # `tfoperator.progress`, for images that lack it
PATIENCE, PAUSE = 300.0, 2.0  # seconds that a store may not answer, and between two requests


def main(digest: str, size: str, requirements: str, *command: str) -> None:
    """Unpack the folder, install the packages, and run the program.

    The function never returns: it runs the program, or exits.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # process 1 of a container ignores it otherwise
    try:
        folder = unpack(digest, int(size))
        os.chdir(folder)
        own = "" if requirements or importlib.util.find_spec("tfoperator") else OWN
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"), own)))
        if requirements:
            install(requirements)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit this
            signal.signal(ignored, signal.SIG_DFL)
        os.execvp(command[0], command)
    except (OSError, http.client.HTTPException, tarfile.TarError) as error:
        fail(f"{command[0]} can't be started in its folder: {error}")


def unpack(digest: str, size: int) -> str:
    """Unpack the folder, and return its path."""
    archive, fresh, folder = (os.path.join(PLACE, name) for name in ("archive", "incomplete", "folder"))
    for left in (fresh, folder, OWN):  # by an earlier start in this pod
        shutil.rmtree(left, ignore_errors=True)
    until = time.monotonic() + PATIENCE
    while (copied := copy(archive, size, until)) != digest:
        if copied:
            fail("the hash of the received folder differs from the hash of the folder that was sent")
        time.sleep(PAUSE)
    with tarfile.open(archive, "r:gz", encoding="utf-8", errors="surrogateescape") as tar:
        for name in tar.getnames():  # Python's filter would only remove a leading / from a name
            if os.path.isabs(name) or ".." in name.split("/"):
                fail(f"the folder contains a file {name!r}, whose path is outside of the folder")
        if hasattr(tarfile, "data_filter"):  # older versions of Python have no filter
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(fresh)
    os.remove(archive)
    os.rename(os.path.join(fresh, ".tfoperator"), OWN)
    os.rename(fresh, folder)
    return folder


def copy(archive: str, size: int, until: float) -> str:
    """Copy the packed folder from the ConfigMap or the object store to `archive`, and return the hash of its bytes.

    The copy ends soon after `size` bytes, because a longer archive is not the folder that was sent. If the store does
    not answer, return "", so that the caller tries again. After the time `until` (of `time.monotonic()`), raise the
    error of the failed request instead.
    """
    link, hashed = Path(SOURCE, "link"), hashlib.sha256()
    try:
        url = link.read_text() if link.exists() else Path(SOURCE, "archive").as_uri()
        with urllib.request.urlopen(url, timeout=60) as source, open(archive, "wb") as target:
            while target.tell() <= size and (block := source.read(1 << 20)):
                hashed.update(block)
                target.write(block)
    except (OSError, http.client.HTTPException) as error:
        if getattr(error, "code", 0) in (400, 401, 403, 404):
            fail(f"the object store refuses the folder ({error}): perhaps its link has expired. Submit the job again")
        if time.monotonic() > until:
            raise
        sys.stderr.write(f"tfoperator: waiting for the folder: {error}\n")
        return ""
    return hashed.hexdigest()


def install(requirements: str) -> None:
    """Install packages in addition to the packages of the image.

    The image's packages stay unchanged, and are used if they are suitable.
    """
    import venv  # which some images lack

    home = os.path.join(PLACE, "packages")
    venv.create(home, clear=True, with_pip=False, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    with open(os.path.join(home, "lib", version, "site-packages", "image.pth"), "w") as stream:
        stream.writelines(path + "\n" for path in (*sys.path, OWN) if path.endswith("-packages"))
    path = os.path.join(home, "bin")
    os.environ.update(VIRTUAL_ENV=home, PATH=path + os.pathsep + os.environ.get("PATH", os.defpath))
    pip = [os.path.join(path, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    code = subprocess.call([*pip, "-r", requirements], stdout=sys.stderr)
    if code:
        fail(f"pip can't install {requirements} (exit code {code}); see the output of pip above")


def fail(text: str) -> NoReturn:
    """Print the reason, and exit with 1."""
    sys.exit(f"tfoperator: {text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
