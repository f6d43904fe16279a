"""Executors for tests, in a module of their own so that a path can name them."""

import asyncio
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfoperator.launcher import Artifact, PermanentFailure, RetryableFailure

Artifacts = Mapping[str, Sequence[Artifact]]


class Copies:
    """Copies its input to its output, some times over."""

    def do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: Mapping[str, Any]) -> None:
        text = Path(input_dict["text"][0].uri).read_text()
        Path(output_dict["copy"][0].uri).write_text(text * int(exec_properties.get("times", 1)))


class Says:
    """Writes the output.json that it is given, and counts its tries in a file."""

    def do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: Mapping[str, Any]) -> None:
        tries = Path(exec_properties["tries"])
        number = int(tries.read_text()) if tries.exists() else 0
        tries.write_text(str(number + 1))
        text = exec_properties["says"][min(number, len(exec_properties["says"]) - 1)]
        if text:
            Path(exec_properties["tmp_path"], "output.json").write_text(text)


class Raises:
    """Raises the error that its properties name."""

    def do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: Mapping[str, Any]) -> None:
        exceptions = {
            exception.__name__: exception for exception in (PermanentFailure, RetryableFailure, asyncio.CancelledError)
        }
        raise exceptions.get(exec_properties["what"], ValueError)("as told")


class Exits:
    """Ends by `sys.exit` with the given code, once it has written the output.json that it is given."""

    def do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: Mapping[str, Any]) -> None:
        if text := exec_properties.get("says"):
            Path(exec_properties["tmp_path"], "output.json").write_text(text)
        sys.exit(exec_properties["code"])


class NoExecutor:
    """Has no `do`."""


class Stopped:
    """Is told to stop by a signal, the first time, and would go on for long."""

    def do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: Mapping[str, Any]) -> None:
        tries = Path(exec_properties["tries"])
        if not tries.exists():
            tries.touch()
            signal.raise_signal(exec_properties["signal"])
            time.sleep(60)
