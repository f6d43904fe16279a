"""The parts of jsonschema used here, imported without the libraries of formats that no CRD has.

jsonschema imports these libraries if they are installed, as with Jupyter. The grammar of IRIs takes more than a second
of CPU, durations (with arrow) a tenth of a second at each start of `tfoperator run`. jsonschema works without them if
they are not installed, so they are hidden while jsonschema is imported. A program that has imported one before keeps
it; for others in this process, formats such as `iri` and `duration` are then not checked, as jsonschema documents for a
missing package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

_LIBRARIES_OF_FORMATS = ("rfc3987_syntax", "isoduration", "uri_template", "webcolors")


@contextmanager
def _hidden(modules: Iterable[str]) -> Iterator[None]:
    """Make imports of the modules fail in this block, as if not installed; leave those that were imported before."""
    hidden = [module for module in modules if module not in sys.modules]
    for module in hidden:
        sys.modules[module] = cast(ModuleType, None)  # the import system's own mark of a module that must not be found
    try:
        yield
    finally:
        for module in hidden:
            del sys.modules[module]


with _hidden(_LIBRARIES_OF_FORMATS):
    from jsonschema import Draft4Validator, FormatChecker, ValidationError

__all__ = ["Draft4Validator", "FormatChecker", "ValidationError"]
