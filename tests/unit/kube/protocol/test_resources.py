import pytest

from tfoperator.kube.protocol.resources import NAMESPACES, PODS, Resource

JOBS = Resource("kubeflow.org", "v1", "TFJob", "tfjobs")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.api_version, "v1"),
        (JOBS.api_version, "kubeflow.org/v1"),
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("a"), "/api/v1/namespaces/a/pods"),
        (PODS.path("a", "b", "log"), "/api/v1/namespaces/a/pods/b/log"),
        (JOBS.path("a", "b", "status"), "/apis/kubeflow.org/v1/namespaces/a/tfjobs/b/status"),
        (NAMESPACES.path("ignored", "n"), "/api/v1/namespaces/n"),
        (PODS.path("a", "../../secrets/x?watch=1"), "/api/v1/namespaces/a/pods/..%2F..%2Fsecrets%2Fx%3Fwatch%3D1"),
    ],
)
def test_paths_and_api_versions(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("dots", [".", ".."])
def test_a_name_that_a_proxy_would_resolve_is_refused(dots: str) -> None:
    with pytest.raises(ValueError, match="is not a valid name of an object"):
        PODS.path("a", dots)
    with pytest.raises(ValueError, match="is not a valid name of an object"):
        PODS.path(dots, "b")
