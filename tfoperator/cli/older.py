"""How commands speak of TFJobs that are older than v1: they take them as v1, and say so."""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.api.conversion import Conversion, older_version
from tfoperator.api.loading import Manifest
from tfoperator.api.v1.types import TFJOBS

__all__ = ["conversion_lines"]


def conversion_lines(manifest: Manifest, conversion: Conversion) -> Iterator[str]:
    """A line that says that the job was converted, and one for each note; none if it is v1 already.

    A note on something that v1 doesn't do is called a warning.
    """
    version = older_version(manifest.obj)
    if version is None or conversion.obj is manifest.obj:
        return
    yield f"{manifest.source}:{manifest.line}: note: {version} is taken as {TFJOBS.api_version}"
    for note in conversion.notes:
        kind = "warning" if note.lost else "note"
        yield f"{manifest.source}:{manifest.line_of(note.field)}: {kind}: {note}"
