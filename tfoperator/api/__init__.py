"""The TFJob API: one package for each part, a module with the defaults, and a module for the jobs in a cache.

`fields` has the tools to declare and check a field, `v1` has the types, `replicas` has the names, templates and pods of
a job's replicas, `kueue` has the queues of jobs, and `waiting` has the reasons why replicas do not run. `validation`
finds the problems of a job, `schema` makes the CRD for API servers, `conversion` turns older versions into v1,
`loading` turns a file into manifests. This module does not import the parts that the operator's process does not need:
callers import such a part by its own module name.
"""

from tfoperator.api.defaults import default
from tfoperator.api.fields.problems import Problem, Severity, errors
from tfoperator.api.replicas.templates import PodTemplate, decode_template
from tfoperator.api.v1.choices import (
    CleanPodPolicy,
    ReplicaType,
    RestartMode,
    RestartPolicy,
    RestartScope,
    SuccessPolicy,
    TensorBoardServiceType,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.run_policy import RunPolicy, SchedulingPolicy
from tfoperator.api.v1.parts.tensorboard import TensorBoard, TensorBoardStatus
from tfoperator.api.v1.status import JobCondition, ReplicaStatus, TFJobStatus
from tfoperator.api.v1.types import TFJOBS, ReplicaSpec, TFJob, TFJobSpec, decode_tfjob
from tfoperator.api.validation.job import validate
from tfoperator.api.validation.manifest import validate_manifest

__all__ = [
    "TFJOBS",
    "CleanPodPolicy",
    "ConditionType",
    "JobCondition",
    "PodTemplate",
    "Problem",
    "ReplicaSpec",
    "ReplicaStatus",
    "ReplicaType",
    "RestartMode",
    "RestartPolicy",
    "RestartScope",
    "RunPolicy",
    "SchedulingPolicy",
    "Severity",
    "SuccessPolicy",
    "TFJob",
    "TFJobSpec",
    "TFJobStatus",
    "TensorBoard",
    "TensorBoardServiceType",
    "TensorBoardStatus",
    "decode_template",
    "decode_tfjob",
    "default",
    "errors",
    "validate",
    "validate_manifest",
]
