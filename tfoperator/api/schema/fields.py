"""The CRD's additions to the declarations of a TFJob's fields: rules over several fields, and rules for changes.

The rules cover the errors that an API server itself can refuse. `tfoperator.api.validation` has the same rules for the
operator and the command line. The cost of every rule is limited (`maxItems`, `maxProperties`, `maxLength`): API servers
refuse a CRD whose rules might cost too much.
"""

from __future__ import annotations

import msgspec

from tfoperator.api.replicas import templates
from tfoperator.api.replicas.data_service import DEFAULT_DATA_SERVICE_PORT
from tfoperator.api.schema.cel_rules import REPLICA_RULES, cel_rule, expression_of_item, unchangeable_rule
from tfoperator.api.schema.pod_template_fields import CONTAINERS, OPEN_STRUCTS
from tfoperator.api.schema.structs import Table
from tfoperator.api.v1.parts.data_service import DataService
from tfoperator.api.v1.parts.elastic import ElasticPolicy
from tfoperator.api.v1.parts.run_policy import RunPolicy
from tfoperator.api.v1.parts.tensorboard import TensorBoard
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJobSpec
from tfoperator.api.validation.rules import (
    ELASTIC_ALONE,
    ELASTIC_DYNAMIC,
    ELASTIC_IN_PLACE,
    ELASTIC_WITH_PS,
    ELASTIC_WITHOUT_WORKERS,
    IN_PLACE_TOGETHER,
    TWO_SUCCESSES,
    Contradiction,
)

_IS_MOUNTED = "has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name)"
_NETWORK = "(has({0}.network) ? {0}.network : '')"
_DATA_PORT = f"(has({{0}}.port) ? {{0}}.port : {DEFAULT_DATA_SERVICE_PORT})"
_MANAGED_BY = "(has({0}.runPolicy) && has({0}.runPolicy.managedBy) ? {0}.runPolicy.managedBy : '')"


_IS_WORKER = "type.lowerAscii() == 'worker'"
_LEAST = "(has(self.elasticPolicy.minReplicas) ? self.elasticPolicy.minReplicas : 1)"


def _elastic(rule: str, message: str, path: str = ".elasticPolicy") -> dict[str, str]:
    """Return a rule of the spec for jobs with an elastic policy."""
    return cel_rule(f"!has(self.elasticPolicy) || {rule}", message, fieldPath=path)


def _elastic_workers(demand: str) -> str:
    """Return CEL for a requirement on the number of workers; `{0}` in it stands for that number."""
    number = "self.tfReplicaSpecs[type].replicas"
    return f"self.tfReplicaSpecs.all(type, !({_IS_WORKER}) || {demand.format(number)})"


_ELASTIC_RULES = [
    _elastic("!self.tfReplicaSpecs.exists(type, type.lowerAscii() == 'ps')", ELASTIC_WITH_PS),
    _elastic(f"self.tfReplicaSpecs.exists(type, {_IS_WORKER})", ELASTIC_WITHOUT_WORKERS),
    _elastic(
        f"!has(self.elasticPolicy.maxReplicas) || {_elastic_workers('{0} <= self.elasticPolicy.maxReplicas')}",
        "must be at least tfReplicaSpecs.Worker.replicas",
        ".elasticPolicy.maxReplicas",
    ),
    _elastic(
        _elastic_workers(f"{{0}} >= {_LEAST}"),
        "must be at most tfReplicaSpecs.Worker.replicas",
        ".elasticPolicy.minReplicas",
    ),
    _elastic(
        "!has(self.runPolicy) || !has(self.runPolicy.restartScope) || self.runPolicy.restartScope != 'Replica'",
        ELASTIC_ALONE,
        ".runPolicy.restartScope",
    ),
    _elastic(
        "!has(self.runPolicy) || !has(self.runPolicy.restartMode) || self.runPolicy.restartMode != 'InPlace'",
        ELASTIC_IN_PLACE,
        ".runPolicy.restartMode",
    ),
    _elastic("!has(self.enableDynamicWorker) || !self.enableDynamicWorker", ELASTIC_DYNAMIC, ".enableDynamicWorker"),
]


def _refused(contradiction: Contradiction) -> dict[str, str]:
    return cel_rule(contradiction.rule, contradiction.message, fieldPath=f".{contradiction.field}")


TABLE = Table(
    structs={
        TFJobSpec: {
            "x-kubernetes-validations": [
                unchangeable_rule(_MANAGED_BY, fieldPath=".runPolicy.managedBy"),
                unchangeable_rule(_NETWORK, fieldPath=".network"),
                _refused(TWO_SUCCESSES),
                *_ELASTIC_RULES,
            ],
        },
        ElasticPolicy: {
            "x-kubernetes-validations": [
                cel_rule(
                    "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                    "must be at most maxReplicas",
                    fieldPath=".minReplicas",
                )
            ],
        },
        RunPolicy: {"x-kubernetes-validations": [_refused(IN_PLACE_TOGETHER)]},
        DataService: {
            "x-kubernetes-validations": [
                # No `messageExpression` with the port: API servers assume that a number may become a text of any
                # length, and refuse the rule for its cost.
                cel_rule(
                    f"{_DATA_PORT.format('self')} == {_DATA_PORT.format('oldSelf')}",
                    "can't be changed",
                    "FieldValueForbidden",
                    fieldPath=".port",
                )
            ]
        },
        TensorBoard: {
            "x-kubernetes-validations": [
                cel_rule(
                    f"!has(self.volumeMounts) || self.volumeMounts.all(mount, {_IS_MOUNTED})",
                    "must name volumes of the TensorBoard",
                    expression=expression_of_item(
                        "self.volumeMounts",
                        "mount",
                        _IS_MOUNTED,
                        "'\"' + mount.name + '\" is none of spec.tensorBoard.volumes'",
                    ),
                    fieldPath=".volumeMounts",
                )
            ],
        },
        # `atomic`: `metadata.managedFields` then has a single entry for the status, because the status has one writer.
        # Entries for each field would be a sixth of a stored job, and a tenth of the API server's CPU for each write.
        TFJobStatus: {"x-kubernetes-map-type": "atomic"},
        templates.PodTemplate: {"required": ["spec"]},
        templates.PodTemplateSpec: {"required": ["containers"]},
        templates.TemplateContainer: {"required": ["image", "name"]},
        templates.TemplatePort: {"required": ["containerPort"]},
    },
    fields={
        TFJobSpec: {
            "tfReplicaSpecs": {"x-kubernetes-validations": [rule.on_change for rule in REPLICA_RULES]},
        },
        templates.PodTemplateSpec: {"containers": CONTAINERS},
    },
    open_structs=OPEN_STRUCTS,
    pods=True,
)
"""The table of additions for the CRD."""

OPEN_TABLE = msgspec.structs.replace(TABLE, pods=False)
"""The table for open pod templates: for API servers that are newer than this project's table of Kubernetes' types."""
