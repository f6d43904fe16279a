"""Settings of one platform, kept apart from the component so that the same pipeline runs anywhere.

Configs come in layers: what a runner says for all components, then what it says for one. `merge` puts a new layer on
top; the new one wins, and whatever it states counts, be it `False`, `0` or empty.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Mapping
from typing import Any, Self

from tfoperator.launcher.core.errors import PlatformConfigError

Json = dict[str, Any]


class PlatformConfig(abc.ABC):
    """Base of all platform configs. Immutable: nothing changes one, `merge` makes another."""

    def merge(self, platform_config: PlatformConfig) -> Self:
        """A config of this one with a newer one on top. PlatformConfigError if that is for another platform."""
        if type(platform_config) is not type(self):
            raise PlatformConfigError(
                f"{type(platform_config).__name__} can't be merged into {type(self).__name__}: "
                "a config only merges with one of its own type"
            )
        return self._merged(platform_config)

    @abc.abstractmethod
    def named(self, origin: str) -> Self:
        """The same config, its layers marked with where they come from: `default config`, `config of trainer`."""

    @abc.abstractmethod
    def _merged(self, new: Self) -> Self: ...

    @abc.abstractmethod
    def as_json(self) -> Json:
        """All of it, to recognise another config."""


def merge_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Dictionaries merged recursively; everything else of the newer one replaces. Shares nothing with either."""
    merged = copy.deepcopy(dict(old))
    for key, value in new.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, Mapping)
        merged[key] = merge_values(before, value) if both else copy.deepcopy(value)  # type: ignore[arg-type]
    return merged
