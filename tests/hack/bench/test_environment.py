from __future__ import annotations

import json
from typing import Any

from hack.bench.environment import Environment


class _Pages:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def request(self, _: str, path: str) -> bytes:
        self.asked.append(path)
        page: dict[str, Any] = {"items": [{"n": len(self.asked)}], "metadata": {}}
        if len(self.asked) < 3:
            page["metadata"]["continue"] = "a+b="
        return json.dumps(page).encode()


def test_a_collection_is_read_page_by_page() -> None:
    one = object.__new__(Environment)
    pages = _Pages()
    one.client = pages  # type: ignore[assignment]
    assert one.list("/api/v1/pods") == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [path.partition("continue=")[2] for path in pages.asked] == ["", "a%2Bb%3D", "a%2Bb%3D"]
