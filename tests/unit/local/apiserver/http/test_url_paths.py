import pytest

from tfoperator.local.apiserver.http.url_paths import ResourcePath, parse_path


@pytest.mark.parametrize(
    ("path", "parsed"),
    [
        ("/api/v1/namespaces/a/pods/status", ResourcePath("", "v1", "pods", "a", "status")),
        ("/apis/g.io/v1/namespaces/a/things/b/", ResourcePath("g.io", "v1", "things", "a", "b")),
        ("/api/v1/namespaces/a/pods/b%2Fc", ResourcePath("", "v1", "pods", "a", "b/c")),
        *((path, None) for path in ("/", "/api", "/api/v1", "/apis/g/v1", "/x/v1/pods", "/api/v1//pods/b")),
        ("/api/v1/namespaces/a/pods/b/log/d", None),
    ],
)
def test_paths_name_resources(path: str, parsed: ResourcePath | None) -> None:
    assert parse_path(path) == parsed
