import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.kueue import queues
from tfoperator.api.replicas import names
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.kube.views.kept import KEPT_ANNOTATIONS, KEPT_LABELS
from tfoperator.kube.views.objects import ObjectMeta, Pod

replicas = st.tuples(st.sampled_from(ReplicaType), st.integers(0, names.MAX_REPLICA_INDEX))


def test_names_and_labels_are_those_that_other_programs_know_and_selectors_pick_what_they_say() -> None:
    assert names.object_name("mnist", ReplicaType.PS, 0) == "mnist-ps-0"
    assert names.object_name("mnist", ReplicaType.WORKER, 11) == "mnist-worker-11"
    assert names.replica_labels("mnist", ReplicaType.CHIEF, 0, is_master=True) == {
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/job-name": "mnist",
        "training.kubeflow.org/replica-type": "chief",
        "training.kubeflow.org/replica-index": "0",
        "training.kubeflow.org/job-role": "master",
    }
    assert names.LABEL_JOB_ROLE not in names.replica_labels("mnist", ReplicaType.PS, 0, is_master=False)
    labels = names.replica_labels("mnist", ReplicaType.PS, 3, is_master=False)
    for selector in (names.MANAGED_SELECTOR, names.job_selector("mnist")):
        assert all(labels[key] == value for key, value in (term.split("=") for term in selector.split(",")))
    assert "training.kubeflow.org/job-name=mnist" in names.job_selector("mnist")


@given(replica=replicas, is_master=st.booleans())
def test_labels_read_back_as_the_replica_they_were_made_for(replica: tuple[ReplicaType, int], is_master: bool) -> None:
    assert names.replica_of(names.replica_labels("j", *replica, is_master=is_master)) == replica


@pytest.mark.parametrize("spelling", ["worker", "Worker", "WORKER"])
def test_a_replica_type_is_read_in_any_case(spelling: str) -> None:
    assert names.parse_replica_type(spelling) is ReplicaType.WORKER


@pytest.mark.parametrize(
    ("kind", "index"),
    [
        *(("ps", odd) for odd in ["", "-1", "+1", "01", "1.0", "one", " 1", "٣", "²", "2147483647", "9" * 5000]),
        ("eval", "0"),
        (None, None),
        ("ps", None),
    ],
)
def test_what_names_no_replica_is_nobodys(kind: str | None, index: str | None) -> None:
    labels = {names.LABEL_REPLICA_TYPE: kind, names.LABEL_REPLICA_INDEX: index}
    assert names.replica_of({key: value for key, value in labels.items() if value is not None}) is None


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (names.replica_labels("job", ReplicaType.PS, 3, is_master=False), "ps-3"),
        ({}, "other"),
        ({names.LABEL_TENSORBOARD: "mnist"}, "tensorboard"),
    ],
)
def test_a_replica_is_named_by_type_and_index_and_other_pods_by_their_name(labels: dict[str, str], name: str) -> None:
    assert names.replica_name(Pod(metadata=ObjectMeta(name="other", labels=labels))) == name


def test_what_the_operator_reads_of_labels_and_annotations_is_what_caches_keep() -> None:
    values = {name: value for module in (names, queues) for name, value in vars(module).items()}
    labels = {value for name, value in values.items() if name.startswith("LABEL_") or name.endswith("_LABEL")}
    # Of Workloads and templates, and of jobs that clients look for.
    elsewhere = {names.LABEL_PREFIX, queues.JOB_UID_LABEL, queues.POD_SET_LABEL, names.LABEL_WORKDIR}
    assert labels - elsewhere <= KEPT_LABELS
    annotations = {value for name, value in values.items() if name.startswith("ANNOTATION_")}
    annotations.add(queues.WORKLOAD_ANNOTATION)
    assert annotations - {names.ANNOTATION_PARAMETERS} <= KEPT_ANNOTATIONS  # it is of the records of runs
