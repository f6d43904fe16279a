from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from hack.bench.api_profile import ApiServerProfile, ProfileError
from hack.bench.raw_http import RawClient, RequestFailed


class _Refusing:
    def request(self, method: str, path: str) -> bytes:
        raise RequestFailed(f"{method} {path}: 403 forbidden")


def test_a_server_that_gives_no_profile_is_named_as_the_reason(tmp_path: Path) -> None:
    profile = ApiServerProfile(cast(RawClient, _Refusing()), tmp_path / "a.pb.gz", tmp_path / "pieces")
    profile.start()
    with pytest.raises(ProfileError, match=r"/debug/pprof/profile\?seconds=5: 403"):
        profile.stop()
    assert not (tmp_path / "a.pb.gz").exists()
