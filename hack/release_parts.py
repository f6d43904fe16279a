"""Parts of a release made from files of the commit: the Helm chart as a package, and the release notes. Pure."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from collections.abc import Mapping


class NoNotes(Exception):
    """The changelog has no notes for a version; the message names the sections that were looked for."""


def chart_package(files: Mapping[str, bytes], name: str, epoch: int) -> bytes:
    """Return a chart as `helm package` makes it, but the same bytes each time. `files`: by path within the chart."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", filename="", mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        # Helm reads a stream and wants to know first of all what chart it is.
        for path in sorted(files, key=lambda file: (file != "Chart.yaml", file)):
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mtime, member.mode = len(files[path]), epoch, 0o644
            target.addfile(member, io.BytesIO(files[path]))
    return buffer.getvalue()


def notes(changelog: str, version: str) -> str:
    """Return the changelog's notes for a version, or for the next version if it has no section of its own yet.

    Raises NoNotes if neither section has notes.
    """
    sections = dict(re.findall(r"^## \[([^\]]+)\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL))
    for title in (version, "Unreleased"):
        text = sections.get(title, "").strip()
        if text:
            return f"# tfoperator {version}\n\n{text}\n"
    raise NoNotes(f"CHANGELOG.md has nothing under [{version}], nor under [Unreleased]")
