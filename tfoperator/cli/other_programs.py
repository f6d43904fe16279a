"""Refuses files that are neither a manifest nor a Python program (notebooks, shell scripts); shows how to run them."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path, PurePath

from tfoperator.cli.terminal.errors import CliError

_NOTEBOOK = ".ipynb"
_SHELLS = (".sh", ".bash", ".zsh", ".ksh")
_BEGIN = 256
"""The number of bytes that are read from the beginning of a file. A first line such as `#!/usr/bin/env bash` is
shorter.
"""


def refuse_other_programs(file: str) -> None:
    """Raise CliError if a file is a notebook, a shell script, or another script whose first line has an interpreter."""
    if file == "-" or not Path(file).is_file():
        return
    if PurePath(file).suffix == _NOTEBOOK:
        raise CliError(f"{file}: is a notebook; this command needs a program or a manifest", _from_notebook(file))
    interpreter = _interpreter(file)
    if "python" in interpreter:
        hint = f"Rename the file, so that its name ends in .py: tfoperator run {shlex.quote(file + '.py')} --workers 2"
        raise CliError(f"{file}: its first line names Python, but its name does not end in .py", hint)
    if interpreter or PurePath(file).suffix in _SHELLS:
        what = f"a script of {interpreter}" if interpreter else "a shell's script"
        words = f"[{interpreter or 'sh'}, {file}]"
        raise CliError(
            f"{file}: is {what}; this command needs a Python program or a manifest",
            "Run the Python program that the script starts: tfoperator run train.py --workers 2 -- ITS ARGUMENTS. Or "
            f"write a manifest with the script as the container's command: {words}.",
        )


def _from_notebook(file: str) -> str:
    """Return the hint how to run a notebook: convert it into a program with nbconvert first."""
    script = shlex.quote(str(PurePath(file).with_suffix(".py")))
    steps = f"python -m nbconvert --to script {shlex.quote(file)} && tfoperator run {script} --workers 2"
    if importlib.util.find_spec("nbconvert") is None:
        steps = f"pip install nbconvert && {steps}"
    return f"To make a program from the notebook: {steps}. Or call tfoperator.notebook.run_locally in the notebook."


def _interpreter(file: str) -> str:
    """Return the name of the interpreter in the first line of a script; "" if the line has no interpreter."""
    try:
        with open(file, "rb") as stream:
            first = stream.read(_BEGIN).partition(b"\n")[0].decode(errors="replace")
    except OSError:
        return ""
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    names = [PurePath(word).name for word in words if not word.startswith("-")]
    return next((name for name in names if name != "env"), "")
