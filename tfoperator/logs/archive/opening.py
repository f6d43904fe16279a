"""Opens the place of an archive: a directory, or a URL of objects."""

from __future__ import annotations

import os
from pathlib import Path

from tfoperator.base.files import local_path
from tfoperator.logs.archive.place import Place
from tfoperator.object_store import is_object_url


def open_place(place: str | os.PathLike[str]) -> Place:
    """Return the place for a directory or a URL. The function makes no request. Raises OSError for an invalid URL."""
    if is_object_url(place):
        # Imported late: an operator without an archive, or with a directory, does not need it.
        from tfoperator.logs.archive.bucket import Bucket

        return Bucket(str(place))
    return Place(local_path(str(place)) or Path(place))
