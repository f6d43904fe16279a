"""The contents of an image, read from the archive that `docker save` writes, without running anything of it."""

import io
import json
import re
import stat
import tarfile
from pathlib import Path
from typing import Any

import msgspec

ELF = b"\x7fELF"


class ImageContents(msgspec.Struct, frozen=True):
    """The image's configuration and its regular files: mode and first bytes, by path without a leading slash."""

    config: dict[str, Any]
    files: dict[str, tuple[int, bytes]]
    links: dict[str, str]

    def programs(self) -> list[str]:
        """Return all executables: ELF files that are no libraries, the loader, and scripts with the right to run."""
        return sorted(
            path
            for path, (mode, head) in self.files.items()
            if (head.startswith(ELF) and not re.search(r"\.so(\.[0-9.]+)?$", path))
            or (head.startswith(b"#!") and mode & 0o111)
            or Path(path).name.startswith("ld-")
        )

    def python_packages(self) -> dict[str, str]:
        """The versions of installed Python packages, by name."""
        matches = (re.search(r"site-packages/([^/]+)-([^/-]+)\.dist-info/METADATA$", path) for path in self.files)
        return {match[1]: match[2] for match in matches if match}

    def system_packages(self) -> list[str]:
        """The Debian packages whose libraries are in it."""
        return sorted(Path(path).name for path in self.files if path.startswith("var/lib/dpkg/status.d/"))

    def privileged(self) -> list[str]:
        """Return files that run with the rights of another user than the user who starts them."""
        return sorted(path for path, (mode, _) in self.files.items() if mode & (stat.S_ISUID | stat.S_ISGID))


def read_image(archive: Path) -> ImageContents:
    """Read an archive; a later layer's file hides an earlier layer's file, and layers must not remove files."""
    files: dict[str, tuple[int, bytes]] = {}
    links: dict[str, str] = {}
    with tarfile.open(archive) as outer:
        [manifest] = json.loads(_member(outer, "manifest.json"))
        config = json.loads(_member(outer, manifest["Config"]))["config"]
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(_member(outer, name))) as layer:
                for entry in layer:
                    assert not Path(entry.name).name.startswith(".wh."), f"{entry.name} is still there"
                    if entry.isfile():
                        content = layer.extractfile(entry)
                        assert content is not None
                        files[entry.name] = (entry.mode, content.read(4))
                    elif entry.issym():
                        links[entry.name] = entry.linkname
    return ImageContents(config, files, links)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None, name
    return file.read()
