from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.support.cli import Cli
from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell


def test_events_are_a_table_oldest_first(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    world.event("TFJob", "mnist", "Later", "second", lastTimestamp="2099-01-01T00:00:00Z", count=3)
    world.event("Pod", "mnist-worker-0", "Earlier", "first\nline", warning=True)
    header, first, second = tell("events", "mnist").out.splitlines()
    assert header.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert first.split()[1:] == ["Warning", "Earlier", "pod/mnist-worker-0", "first", "line"]
    assert second.split() == ["<invalid>", "(x3)", "Normal", "Later", "tfjob/mnist", "second"]
    assert [event["reason"] for event in json.loads(tell("events", "mnist", "-o", "json").out)] == ["Earlier", "Later"]


def test_no_events_is_no_failure(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    said = tell("events", "mnist")
    assert (said.code, said.out) == (0, "")
    assert "There are no events about TFJob mnist" in said.err


def test_watching_shows_new_ones(world: ServedWorld, tmp_path: Path) -> None:
    world.submit()
    world.event("TFJob", "mnist", "Old", "before")
    with Cli(tmp_path, KUBECONFIG=str(world.kubeconfig)).start("events", "mnist", "-w") as command:
        command.until("before")
        world.event("TFJob", "other", "Foreign", "not ours")
        world.event("Pod", "mnist-worker-0", "New", "after")
        command.until("after")
        assert command.end(signal.SIGINT) == 130
    assert "not ours" not in command.output
