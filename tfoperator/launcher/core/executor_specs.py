"""What does a component's work: a container image with a command, or a class of this Python environment.

Environment variables are no part of it: they differ between platforms, so they belong into a platform config.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tfoperator.launcher.core.errors import ComponentError

_PATH = re.compile(r"\w+(\.\w+)*:\w+")


class ExecutorSpec(msgspec.Struct, frozen=True):
    """Base of everything that can do a component's work."""


class ExecutorContainerSpec(ExecutorSpec, frozen=True):
    """An image and, as in Kubernetes, the command that replaces its entry point and the arguments that replace its CMD.

    All three may hold placeholders; see `launcher.container.templates`. `container_image` is what the TFX design calls
    `image`. Raises ComponentError if there is no image, or a word is no text.
    """

    image: str = ""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    container_image: str = ""

    def __post_init__(self) -> None:
        if self.container_image:
            if self.image:
                raise ComponentError("image and container_image are two names of one thing: give one of them")
            msgspec.structs.force_setattr(self, "image", self.container_image)
            msgspec.structs.force_setattr(self, "container_image", "")
        if not isinstance(self.image, str) or not self.image.strip():
            raise ComponentError("a container needs an image")
        for field, words in (("command", self.command), ("args", self.args)):
            if isinstance(words, str) or not all(isinstance(word, str) for word in words):
                raise ComponentError(f"{field} is a list of strings, but is {words!r}")


class Executor(Protocol):
    """A Python class that does a component's work; made without arguments for each execution.

    It may raise `PermanentFailure` or `RetryableFailure`; `sys.exit` means what it does in a container. Anything else
    that it raises is permanent.
    """

    def do(
        self,
        input_dict: Mapping[str, Sequence[Any]],
        output_dict: Mapping[str, Sequence[Any]],
        exec_properties: Mapping[str, Any],
    ) -> None:
        """Do the work. `exec_properties["tmp_path"]` is a directory where it may write output.json."""
        ...


class ExecutorClassSpec(ExecutorSpec, frozen=True):
    """A class with a method `do` (see `Executor`), or its path `package.module:Class`.

    A path is imported, and so its module's code run, by `load` and not before: a component file is read, and shown by
    a dry run, without running anything. Raises ComponentError for a path of another form.
    """

    executor_class: type[Executor] | str

    def __post_init__(self) -> None:
        if isinstance(self.executor_class, str) and not _PATH.fullmatch(self.executor_class):
            raise ComponentError(f"{self.executor_class!r} is no path of a class: write package.module:Class")

    @classmethod
    def named(cls, path: str) -> ExecutorClassSpec:
        """The class of a path, imported now. Raises ComponentError if it isn't there."""
        return cls(cls(path).load())

    def load(self) -> type[Executor]:
        """The class, imported if need be. Raises ComponentError if it isn't there or is no executor."""
        if not isinstance(self.executor_class, str):
            return self.executor_class
        path = self.executor_class
        module, _, name = path.partition(":")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            where = "; PYTHONPATH says where to look" if isinstance(error, ModuleNotFoundError) else ""
            raise ComponentError(
                f"{path!r} is no class that can be imported (package.module:Class): {error}{where}"
            ) from error
        except SystemExit as error:
            raise ComponentError(f"{path!r} can't be imported: its module calls sys.exit({error.code!r})") from error
        if not isinstance(found, type) or not callable(getattr(found, "do", None)):
            raise ComponentError(
                f"{path} is no executor: that is a class with a method do(inputs, outputs, properties)"
            )
        return found

    @property
    def path(self) -> str:
        """`package.module:Class`."""
        known = self.executor_class
        return known if isinstance(known, str) else f"{known.__module__}:{known.__qualname__}"
