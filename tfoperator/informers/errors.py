"""The errors of this package. Errors of the API server never get here: a reflector outlives them all."""

from __future__ import annotations


class InformerError(Exception):
    """Root of the errors of `tfoperator.informers`."""


class UnknownIndex(InformerError, LookupError):
    """No index of that name was added: a mistake of the caller, not of the data."""


class IndexConflict(InformerError, ValueError):
    """An index of that name exists with another function."""


class IndexFunctionError(InformerError):
    """An index function raised. Fatal: an object that can't be indexed would be missing for ever, unnoticed."""


class InformerStopped(InformerError, RuntimeError):
    """A handler or an index was to be added to an informer that has been stopped."""
