from __future__ import annotations

import pytest

from tfoperator.local.apiserver.http.url_paths import ResourcePath, parse_path


@pytest.mark.parametrize(
    ("path", "parsed"),
    [
        ("/api/v1/pods", ResourcePath("", "v1", "pods")),
        ("/api/v1/namespaces", ResourcePath("", "v1", "namespaces")),
        ("/api/v1/namespaces/a", ResourcePath("", "v1", "namespaces", "", "a")),
        ("/api/v1/namespaces/a/status", ResourcePath("", "v1", "namespaces", "", "a", "status")),
        ("/api/v1/namespaces/a/pods", ResourcePath("", "v1", "pods", "a")),
        ("/api/v1/namespaces/a/pods/b", ResourcePath("", "v1", "pods", "a", "b")),
        ("/api/v1/namespaces/a/pods/b/log", ResourcePath("", "v1", "pods", "a", "b", "log")),
        ("/api/v1/namespaces/a/pods/status", ResourcePath("", "v1", "pods", "a", "status")),
        ("/apis/g.io/v1/namespaces/a/things/b/", ResourcePath("g.io", "v1", "things", "a", "b")),
        ("/api/v1/namespaces/a/pods/b%2Fc", ResourcePath("", "v1", "pods", "a", "b/c")),
        ("/api/v1/nodes/n", ResourcePath("", "v1", "nodes", "", "n")),
    ],
)
def test_paths_name_resources(path: str, parsed: ResourcePath) -> None:
    assert parse_path(path) == parsed


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/g/v1", "/x/v1/pods", "/api/v1/namespaces/a/pods/b/log/d", "/api/v1//pods/b"]
)
def test_other_paths_name_none(path: str) -> None:
    assert parse_path(path) is None
