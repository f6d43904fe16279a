"""The folders of a run in `pipeline_root`: its workspace, and the folder for its steps' `output.json`."""

from __future__ import annotations

import os

from tfoperator.base.files import local_path
from tfoperator.base.urls import shown_url
from tfoperator.launcher import ComponentError
from tfoperator.pipeline.store.records import RunRecord

_WORKSPACE, _TMP = ".workspace", ".tmp"
"""The names of folders in `pipeline_root`, for workspaces (`workspace_of`) and for the files `output.json` (`tmp_of`).
The name of a step can't begin with a dot, so the folder of a step never has such a name.
"""


def workspace_of(run: RunRecord) -> str:
    """Return the path of the folder that all steps of a run share. The driver makes the folder on its first use.

    Raises ComponentError if `pipeline_root` is in an object store, because an object store has no folders.
    """
    if (root := local_path(run.root)) is None:
        raise ComponentError(
            f"a workspace needs a pipeline_root that is a directory, but pipeline_root is {shown_url(run.root)}"
        )
    return f"{root}/{_WORKSPACE}/{run.id}"


def tmp_of(run: RunRecord) -> str:
    """Return the folder in `pipeline_root` for the files `output.json` of a run's steps.

    A step writes its `output.json` there if its pod mounts `pipeline_root`.
    """
    return f"{local_path(run.root) or run.root}/{_TMP}/{run.id}"


def leads_out(root: str, path: str) -> bool:
    """Return whether `path`, a path below a local root, contains a symbolic link.

    A step's program can leave a link in the root. A write through the link could then change files elsewhere.
    """
    top = str(local_path(root) or root)
    return os.path.realpath(path) != os.path.join(os.path.realpath(top), os.path.relpath(path, top))
