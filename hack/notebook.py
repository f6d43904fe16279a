"""Runs the notebooks of examples/notebook and keeps what they show: `python hack/notebook.py [NOTEBOOK ...]`.

A kernel of the interpreter that runs this script executes them, in an empty directory.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebook"
TIMEOUT = 300  # seconds for each cell


class _ThisInterpreter(AsyncKernelManager):
    """A kernel of this interpreter: none has to be registered with Jupyter."""

    @property
    def kernel_spec(self) -> KernelSpec:
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Python 3", language="python")


def execute(path: Path) -> Any:
    """Return the notebook with the output of its cells. Raises nbclient.exceptions.CellExecutionError if it fails."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as sockets:
        client = NotebookClient(
            notebook,
            timeout=TIMEOUT,
            startup_timeout=TIMEOUT,
            # Sockets in a directory that only we can enter, instead of ports that anybody on the machine can reach.
            km=_ThisInterpreter(transport="ipc", ip=f"{sockets}/kernel"),
            resources={"metadata": {"path": folder}},
        )
        # The kernel ends, and its sockets with it: a manager that was given would be left as it is.
        client.execute(cleanup_kc=True)
    return notebook


def without_places(notebook: Any) -> Any:
    """The notebook without what differs from run to run and from machine to machine."""
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if "outputs" in cell:
            cell.outputs = _joined(cell.outputs)
        for output in cell.get("outputs", []):
            output.pop("metadata", None)
            if output.output_type in ("display_data", "execute_result"):
                output.metadata = {}
            if "text" in output:
                output.text = re.sub(r"/[^\s]*/tmp\w+", ".", output.text)
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """The outputs with neighbouring pieces of one stream in one."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.get("name") and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def main(arguments: list[str]) -> int:
    """Execute the notebooks that are named, or all."""
    for path in [Path(argument) for argument in arguments] or sorted(NOTEBOOKS.glob("*.ipynb")):
        print(f"running {path.name} ...", flush=True)
        nbformat.write(without_places(execute(path)), path)  # type: ignore[no-untyped-call]
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
