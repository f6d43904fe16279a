import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tfoperator.notebook.run import EnvironmentFailed, make_environment, variables


def wheel(folder: Path, name: str, *, requires: str = "") -> str:
    """Make a package with a module that greets, here, so that no index is needed for it."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" + (
        f"Requires-Dist: {requires}\n" if requires else ""
    )
    files = {
        f"{name}.py": "WORD = 'hello'\n",
        f"{name}-1.0.dist-info/METADATA": metadata,
        f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nTag: py3-none-any\n",
    }
    path = folder / f"{name}-1.0-py3-none-any.whl"
    record = ""
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{file},sha256={digest},{len(text)}\n"
        archive.writestr(f"{name}-1.0.dist-info/RECORD", f"{record}{name}-1.0.dist-info/RECORD,,\n")
    return str(path)


def test_packages_go_into_the_environment_of_the_run_and_nowhere_else(tmp_path: Path) -> None:
    # Installed packages are good enough: pip does not ask an index for msgspec.
    package = wheel(tmp_path, "only_of_this_run", requires="msgspec")
    python = make_environment(tmp_path / "environment", [package], index_url="http://127.0.0.1:1/none")
    code = "import only_of_this_run, msgspec, sys; print(only_of_this_run.WORD, msgspec.__file__, sys.prefix)"
    # Not this test's own modules: only what environments are made of.
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=plain)
    word, msgspec_file, prefix = process.stdout.split()
    spec = find_spec("msgspec")
    assert spec is not None
    assert (word, msgspec_file, prefix) == ("hello", spec.origin, str(tmp_path / "environment"))
    assert find_spec("only_of_this_run") is None


def test_what_can_not_be_installed_is_said_with_pips_words(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"can't install no-such-package-[a-z]+:\n(.|\n)*no-such-package"):
        make_environment(tmp_path / "environment", ["no-such-package-anywhere"], index_url="http://127.0.0.1:1/none")


def test_a_package_is_never_an_option(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="can't install"):
        make_environment(tmp_path / "environment", ["--target=/nowhere"])


def test_programs_that_are_started_find_the_environment_too() -> None:
    made = variables(Path("/run/environment/bin/python"), {"PATH": "/usr/bin"})
    assert made == {"VIRTUAL_ENV": "/run/environment", "PATH": f"/run/environment/bin{os.pathsep}/usr/bin"}
    assert sys.prefix != made["VIRTUAL_ENV"]
