from pathlib import Path

import pytest
from docker.errors import APIError, NotFound

from tests.support.eventually import eventually
from tests.support.threads import InThread
from tfoperator.local.runtime.docker.quiet_volumes import QuietVolumes
from tfoperator.local.runtime.protocol import LaunchError, Mount


class Pauses:
    """docker-py's client, as far as containers are paused."""

    def __init__(self) -> None:
        self.paused: list[str] = []
        self.resumed: list[str] = []
        self.gone: set[str] = set()
        self.ended: set[str] = set()
        self.stubborn: set[str] = set()

    def pause(self, container: str) -> None:
        if container in self.gone:
            raise NotFound(container)
        if container in self.ended | self.stubborn:
            raise APIError("409", explanation="no")
        self.paused.append(container)

    def inspect_container(self, container: str) -> dict[str, dict[str, bool]]:
        return {"State": {"Running": container not in self.ended}}

    def unpause(self, container: str) -> None:
        self.resumed.append(container)
        if container in self.gone:
            raise NotFound(container)


@pytest.fixture
def whole(tmp_path: Path) -> Mount:
    return Mount("v", tmp_path, "/v")


@pytest.fixture
def part(tmp_path: Path) -> Mount:
    return Mount("v", tmp_path / "a/b", "/b", volume=tmp_path)


def started(volumes: QuietVolumes, api: Pauses, name: str, *mounts: Mount) -> None:
    with volumes.starting(api, name, mounts):
        pass


def test_who_could_move_a_part_is_paused_while_it_is_mounted(whole: Mount, part: Mount, tmp_path: Path) -> None:
    volumes, api = QuietVolumes(), Pauses()
    above = Mount("v", tmp_path / "a", "/a", volume=tmp_path)
    reader = Mount("v", tmp_path, "/v", read_only=True)
    for name, mount in {"whole": whole, "above": above, "same": part, "reader": reader}.items():
        started(volumes, api, name, mount)
    assert api.paused == ["whole", "above", "whole"], "for the two that have mounted a part"
    with volumes.starting(api, "next", [part]):
        assert api.paused[3:] == ["above", "whole"]
        assert part.source.is_dir()
        assert len(api.resumed) == 3
    assert sorted(api.resumed) == sorted(api.paused)
    volumes.ended("whole")
    volumes.ended("above")
    started(volumes, api, "last", part)
    assert len(api.paused) == 5


def test_a_link_is_refused_and_nobody_stays_paused(whole: Mount, part: Mount, tmp_path: Path) -> None:
    volumes, api = QuietVolumes(), Pauses()
    started(volumes, api, "whole", whole)
    (tmp_path / "a").symlink_to("/")
    with pytest.raises(LaunchError, match="subPath 'a/b' contains a symbolic link"):
        started(volumes, api, "part", part)
    assert api.paused == api.resumed == ["whole"]


def test_one_that_goes_on_is_a_reason_not_to_start_and_one_that_has_ended_is_none(whole: Mount, part: Mount) -> None:
    volumes, api = QuietVolumes(), Pauses()
    for name in ("b", "gone", "ended"):
        started(volumes, api, name, whole)
    api.gone, api.ended = {"gone"}, {"ended"}
    started(volumes, api, "part", part)
    assert api.paused == api.resumed == ["b"]
    started(volumes, api, "z", whole)
    api.stubborn = {"z"}
    with pytest.raises(LaunchError, match="container z could replace a folder on the path of the subPath by a link"):
        started(volumes, api, "part", part)
    assert api.resumed == ["b", "b"]


@pytest.mark.parametrize("first", ["whole", "part"])
def test_who_could_move_a_part_is_not_started_while_it_is_mounted(first: str, whole: Mount, part: Mount) -> None:
    volumes, api = QuietVolumes(), Pauses()
    mounted, other = (whole, part) if first == "whole" else (part, whole)
    with volumes.starting(api, "one", [mounted]):
        waiting = InThread(lambda: started(volumes, api, "other", other))
        started(volumes, api, "elsewhere", Mount("w", Path("/elsewhere"), "/w"))
        eventually(lambda: volumes._changed._waiters, what="it waits")  # type: ignore[attr-defined]
        assert "other" not in volumes._writers
    waiting.result()
    assert api.paused == (["one"] if first == "whole" else [])
