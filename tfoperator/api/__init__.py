"""What is a TFJob? Its types, names and defaults, and one room for each larger question about it.

`v1` has the types; `validation` says what is wrong with a job, `schema` what API servers know of it (the CRD),
`conversion` how older versions become v1, `loading` how a file becomes a manifest. The operator's process needs the
first two only, so the others are imported by their own names.
"""

from tfoperator.api.defaults import default
from tfoperator.api.problems import Problem, Severity, errors
from tfoperator.api.templates import PodTemplate, decode_template
from tfoperator.api.v1.status import JobCondition, ReplicaStatus, TensorBoardStatus, TFJobStatus
from tfoperator.api.v1.types import (
    TFJOBS,
    CleanPodPolicy,
    ConditionType,
    ReplicaSpec,
    ReplicaType,
    RestartPolicy,
    RestartScope,
    RunPolicy,
    SchedulingPolicy,
    SuccessPolicy,
    TensorBoard,
    TensorBoardServiceType,
    TFJob,
    TFJobSpec,
    decode_tfjob,
)
from tfoperator.api.validation import validate, validate_manifest

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
