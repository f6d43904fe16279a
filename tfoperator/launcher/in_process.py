"""Runs a component that is a Python class, right here: for light steps, and for tests of a pipeline."""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tfoperator.launcher.base import BaseComponentLauncher
from tfoperator.launcher.component import ArtifactDict
from tfoperator.launcher.errors import LaunchCancelled, LauncherError, PermanentFailure, RetryableFailure
from tfoperator.launcher.executor_specs import ExecutorClassSpec, ExecutorSpec
from tfoperator.launcher.outcome import ContainerEnd, VerdictKind, judge
from tfoperator.launcher.output import MalformedOutput, Output
from tfoperator.launcher.platform_configs import PlatformConfig

__all__ = ["InProcessComponentLauncher"]

logger = logging.getLogger(__name__)


class InProcessComponentLauncher(BaseComponentLauncher):
    """Takes class specs and no platform config. `cancel` can't end work that has begun, only keep off the next try.

    A KeyboardInterrupt does, in the thread that called `launch`; a signal handler may raise it while `busy`.
    """

    kind = "in-process"
    busy = False
    """Whether the class's own code runs at the moment."""

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_config: PlatformConfig | None = None) -> bool:
        """Whether it is a class, and nothing is configured."""
        return isinstance(executor_spec, ExecutorClassSpec) and platform_config is None

    def dry_run(self) -> str:
        """The class and what it would get."""
        call = {
            "class": self._spec.path,
            "inputs": msgspec.to_builtins({k: list(v) for k, v in self.component.inputs.items()}),
            "outputs": msgspec.to_builtins({k: list(v) for k, v in self.component.outputs.items()}),
            "exec_properties": self.properties,
        }
        return yaml.safe_dump(call, sort_keys=False)

    @property
    def _spec(self) -> ExecutorClassSpec:
        spec = self.component.executor_spec
        assert isinstance(spec, ExecutorClassSpec)
        return spec

    def _run_executor(
        self,
        execution_id: int,
        input_dict: ArtifactDict,
        output_dict: ArtifactDict,
        exec_properties: Mapping[str, Any],
    ) -> Output | None:
        def attempt() -> Output | None:
            if self.cancelled.is_set():
                raise LaunchCancelled(f"component {self.component.name}: cancelled")
            begun = self.record.state == "planned" and self.record.name == ""
            self.context.store.clear(self.tmp_path)
            self._advance("planned", attempt=self.record.attempt + (not begun), name=self._spec.path)
            return self._once(input_dict, output_dict, exec_properties)

        return self.context.repeated(
            attempt,
            self.context.retry,
            lambda error: isinstance(error, RetryableFailure),
            cancelled=self.cancelled,
            what=f"component {self.component.name}, execution {execution_id}",
        )

    def _once(self, inputs: ArtifactDict, outputs: ArtifactDict, properties: Mapping[str, Any]) -> Output | None:
        end = ContainerEnd(exit_code=0)
        try:
            self.busy = True
            self._spec.executor_class().do(inputs, outputs, properties)
        except LauncherError:
            raise
        except Exception as error:
            logger.exception("component %s failed", self.component.name)
            end = ContainerEnd(exit_code=1, message=f"{type(error).__name__}: {error}")
        finally:
            self.busy = False
        said = self._read_output()
        verdict = judge(end, said)
        message = f"component {self.component.name} failed: {verdict.message}"
        if verdict.kind is VerdictKind.PERMANENT:
            raise PermanentFailure(message)
        if verdict.kind is VerdictKind.RETRYABLE:
            raise RetryableFailure(message)
        assert not isinstance(said, MalformedOutput)
        return said

    def _cache_identity(self) -> str:
        """The digest of the file that the class is in: other code is another executor."""
        source = inspect.getsourcefile(self._spec.executor_class)
        if source is None:
            logger.error("component %s: caching is disabled: its class has no source file", self.component.name)
            return ""
        return "sha256:" + hashlib.sha256(Path(source).read_bytes()).hexdigest()
