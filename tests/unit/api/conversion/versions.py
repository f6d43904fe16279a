"""Valid jobs of either version for properties: what an API server lets in, as it fills it in."""

from typing import Any

from hypothesis import strategies as st

from tests.unit.api.samples import FULL_SPEC, TEMPLATE

_policies = st.sampled_from(["Always", "OnFailure", "Never", "ExitCode"])


def _replicas(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    replica = st.fixed_dictionaries(
        {"template": st.just(TEMPLATE)}, optional={"replicas": st.integers(0, 3), "restartPolicy": _policies}
    )
    return st.dictionaries(st.sampled_from(names), replica, min_size=1)


def _one_leader(specs: dict[str, Any]) -> bool:
    return not {"Chief", "Master"} <= set(specs)


_network = st.sampled_from(["PerReplica", "PerJob"])
_clean = st.sampled_from(["All", "Running", "None"])
_run_policy = st.fixed_dictionaries(
    # Fields that the API server would fill in.
    {"cleanPodPolicy": _clean, "suspend": st.booleans()},
    optional={
        "ttlSecondsAfterFinished": st.integers(0, 9),
        "backoffLimit": st.integers(0, 9),
        "restartScope": st.sampled_from(["Job", "Replica"]),
        "restartMode": st.just("Recreate"),
        "managedBy": st.just("kubeflow.org/training-operator"),
        "schedulingPolicy": st.just(FULL_SPEC["runPolicy"]["schedulingPolicy"]),
    },
)

valid_v1_specs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"tfReplicaSpecs": _replicas(["PS", "Worker", "worker", "Chief", "Master", "Evaluator"]).filter(_one_leader)},
    optional={
        "runPolicy": _run_policy,
        "successPolicy": st.sampled_from(["", "AllWorkers"]),
        "enableDynamicWorker": st.booleans(),
        "clusterArguments": st.booleans(),
        "network": _network,
    },
).filter(lambda spec: not {"Worker", "worker"} <= set(spec["tfReplicaSpecs"]))

valid_v1alpha2_specs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "tfReplicaSpecs": _replicas(["PS", "Worker", "Chief", "Master", "Eval", "evaluator", "Local"]).filter(
            lambda specs: (
                _one_leader(specs) and not {"Eval", "evaluator"} <= set(specs) and not {"Local", "Worker"} <= set(specs)
            )
        )
    },
    optional={
        "cleanPodPolicy": _clean,
        "ttlSecondsAfterFinishing": st.integers(0, 9),
        "runPolicy": st.fixed_dictionaries(
            {},
            optional={
                "managedBy": st.just("kubeflow.org/training-operator"),
                "schedulingPolicy": st.just({"queue": "research"}),
            },
        ),
        "network": _network,
    },
)
