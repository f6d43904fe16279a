"""A Chromium for tests and screenshots: Debian's headless shell and its libraries, unpacked into the cache.

It has its own fonts, so that a page looks the same on every machine. It sends no requests except for the opened pages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from hack import debian

_FLAGS = (
    "--no-sandbox",  # as root; what it opens is ours
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{root}/usr/share/fonts</dir>
  <cachedir>{folder}/fonts</cachedir>
  <alias binding="same"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
  <alias binding="same"><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
  <alias binding="same"><family>ui-monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


def launch_options(folder: Path) -> dict[str, Any]:
    """Return the options of Playwright's `launch`; `folder` gets the configuration of fonts. Raises PackageError."""
    root = debian.find(debian.CHROMIUM)
    fonts = folder / "fonts.conf"
    fonts.write_text(_FONTS.format(root=root, folder=folder))
    libraries = [
        library
        for machine in ("x86_64-linux-gnu", "aarch64-linux-gnu")
        for library in (
            root / "usr/lib" / machine,
            root / "lib" / machine,
            root / "usr/lib" / machine / "pulseaudio",
        )
    ]
    environment = {
        **os.environ,
        "FONTCONFIG_FILE": str(fonts),
        "HOME": str(folder),
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
    }
    executable = root / "usr/lib/chromium/chromium-headless-shell"
    return {"executable_path": str(executable), "args": list(_FLAGS), "env": environment, "headless": True}


@contextmanager
def running_chromium(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own, which ends with the block. Raises PackageError."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options(folder))
        try:
            yield browser
        finally:
            browser.close()
