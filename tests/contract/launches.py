"""Launches of pods in a namespace of the test: import `player` and `start`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import ApiServer
from tests.contract.support import Space, nothing_left
from tests.support.launching import QUICK, Background, PodPlayer, in_background, step
from tests.support.node_logs import no_logs
from tfoperator.launcher import Component, KubernetesPodComponentLauncher, LaunchContext, PlatformConfig

Start = Callable[..., Background]


@pytest.fixture
def player(space: Space) -> PodPlayer:
    return PodPlayer(space.client, space.namespace)


@contextmanager
def pod_launches(space: Space, folder: Path, usual: PlatformConfig | None = None, **defaults: Any) -> Iterator[Start]:
    """Launches pods in the background, by default of a step with this configuration; `defaults` are of the context."""
    defaults = {"namespace": space.namespace, "kube": space.new_client, **defaults}
    with in_background(folder) as begin:

        def launch(
            component: Component | None = None, config: PlatformConfig | None = usual, **options: Any
        ) -> Background:
            def make(context: LaunchContext) -> KubernetesPodComponentLauncher:
                return KubernetesPodComponentLauncher(component or step(), config, context=context)

            return begin(make, **{**defaults, **options})

        yield launch


@pytest.fixture
def start(api_server: ApiServer, space: Space, tmp_path: Path) -> Iterator[Start]:
    """Launches in the background, with the working directory `tmp_path/work` unless told otherwise."""
    if api_server.node_logs is not None:
        api_server.node_logs.reader = no_logs
    with nothing_left(), pod_launches(space, tmp_path, api_retry=QUICK) as launch:
        yield launch
