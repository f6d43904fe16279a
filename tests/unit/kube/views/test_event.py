import msgspec

from tfoperator.kube.views.event import ObjectReference
from tfoperator.kube.views.objects import ObjectMeta


def test_a_reference_is_made_from_an_objects_metadata_and_encodes_as_kubernetes_does() -> None:
    metadata = ObjectMeta(name="mnist", namespace="team", uid="uid-1", resource_version="7")
    reference = ObjectReference.to("kubeflow.org/v1", "TFJob", metadata)
    names = {"namespace": "team", "name": "mnist", "uid": "uid-1", "resourceVersion": "7"}
    expected = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", **names}
    assert msgspec.json.decode(msgspec.json.encode(reference)) == expected
    assert str(reference) == "TFJob team/mnist"
    assert str(ObjectReference("v1", "Node", name="n1")) == "Node n1"
