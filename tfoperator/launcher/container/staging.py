"""Copies artifacts between an object store and local files, for a program that can only use files.

Before the program runs, `download` copies the inputs to `tmp_path/inputs/NAME/NUMBER`. After the program has succeeded,
`launcher.core.output` uploads the files that the program has written to `tmp_path/outputs/NAME`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tfoperator.launcher.core.component import Component
from tfoperator.launcher.core.errors import PermanentFailure, PlatformUnavailable
from tfoperator.launcher.core.output import OUTPUTS_FOLDER
from tfoperator.object_store import Objects, ObjectStoreError

_INPUTS_FOLDER = "inputs"


def staged_places(component: Component, tmp_path: str, below: str) -> dict[str, str]:
    """Return the local path of each input and output whose URL begins with the URL `below`. The keys are the URLs.

    If `below` is "", the result is empty.
    """
    inputs = {
        artifact.uri: f"{tmp_path}/{_INPUTS_FOLDER}/{name}/{number}"
        for name, artifacts in component.inputs.items()
        for number, artifact in enumerate(artifacts)
    }
    outputs = {
        artifact.uri: f"{tmp_path}/{OUTPUTS_FOLDER}/{name}"
        for name, artifacts in component.outputs.items()
        for artifact in artifacts
    }
    return {uri: path for uri, path in (inputs | outputs).items() if below and uri.startswith(f"{below}/")}


def clear(tmp_path: str) -> None:
    """Remove the copies of inputs and outputs of an earlier attempt."""
    for name in (_INPUTS_FOLDER, OUTPUTS_FOLDER):
        folder = Path(tmp_path, name)
        if folder.is_symlink():  # the program may have replaced the folder by a link
            folder.unlink()
        else:
            shutil.rmtree(folder, ignore_errors=True)


def download(component: Component, tmp_path: str, below: str) -> None:
    """Download the component's inputs whose URL is below `below`. Create the folder of its outputs with mode 1777.

    Containers can run with any user ID, and must be able to write to this folder. Before the download, remove the
    copies of an earlier attempt. Raises PlatformUnavailable if the object store does not respond, and PermanentFailure
    for any other error.
    """
    clear(tmp_path)
    places = staged_places(component, tmp_path, below)
    try:
        outputs = Path(tmp_path, OUTPUTS_FOLDER)
        outputs.mkdir(parents=True)
        os.chmod(outputs, 0o1777)
        for uri in {artifact.uri: None for artifacts in component.inputs.values() for artifact in artifacts}:
            if uri in places:
                Objects(uri).download(Path(places[uri]))
    except ObjectStoreError as error:
        kind = PlatformUnavailable if error.passing else PermanentFailure
        raise kind(f"component {component.name}: an input can't be downloaded: {error}") from None
    except OSError as error:
        raise PermanentFailure(f"component {component.name}: {error.filename}: {error.strerror}") from error
