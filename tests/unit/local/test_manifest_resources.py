from tests.support.fake_api import FakeApi
from tfoperator.kube.protocol.resources import CONFIG_MAPS, NAMESPACES, Resource
from tfoperator.local.manifest_resources import apply


def config_map(name: str, **meta: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}


def test_objects_go_where_they_say_or_to_the_default_and_namespaces_are_made_if_they_are_not_there() -> None:
    api = FakeApi()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    apply(api, [config_map("a"), config_map("b", namespace="other"), {"kind": "Unknown"}, namespace], "mine")
    assert api.names(CONFIG_MAPS, "mine") == ["a"]
    assert api.names(CONFIG_MAPS, "other") == ["b"]
    assert api.names(NAMESPACES) == ["mine", "other"]


def test_a_manifest_may_have_the_service_account_that_every_namespace_has_already() -> None:
    api, accounts = FakeApi(), Resource("", "v1", "ServiceAccount", "serviceaccounts")
    api.put(accounts, {"metadata": {"name": "default", "namespace": "mine"}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    for namespace in ("mine", "other"):
        apply(api, [{**account, "imagePullSecrets": [{"name": "login"}]}], namespace)
    assert [found["imagePullSecrets"] for found in api.objects(accounts)] == [[{"name": "login"}]] * 2
