"""The schema that API servers check v1alpha2 jobs with: v1's, in v1alpha2's words.

It is derived from v1's, so that a bound or rule of v1 can't be missing here: API servers check a job in the version in
which it is written and don't look again once it is converted. What v1alpha2 has no field for travels in an annotation
(`tfoperator.api.conversion`), and a status passes through whole.

`restartPolicy` has no default here, though its default is Always: a default of the schema is filled in before anybody
can see that the template names another policy, which goes before it. The conversion writes down which of them holds.
"""

from __future__ import annotations

import copy
from typing import Any

from tfoperator.api.cel_rules import new_job_rules, replica_rules
from tfoperator.api.schema import Schema

__all__ = ["v1alpha2_schema"]

_TYPES = ("PS", "Worker", "Chief", "Eval", "Evaluator", "Local")
_RULES = replica_rules(
    _TYPES,
    [
        ("Eval", "Evaluator", "they are two names for one type"),
        ("Local", "Worker", "Local is a Worker without others"),
    ],
)

_TYPE_SIZE = "(type.lowerAscii() == 'eval' ? 9 : type.lowerAscii() == 'local' ? 6 : size(type))"
"""Evaluator, Worker."""


def v1alpha2_schema(hub: Schema) -> Schema:
    """The structural schema of a v1alpha2 TFJob, made from a copy of v1's."""
    schema = copy.deepcopy(hub)
    members = schema["properties"]
    members["spec"] = _spec(members["spec"])
    status = members["status"]["properties"]
    status["tfReplicaStatuses"] = status.pop("replicaStatuses")
    members["status"]["properties"] = dict(sorted(status.items()))
    schema["x-kubernetes-validations"] = new_job_rules(_RULES, _TYPE_SIZE)
    return schema


def _spec(v1: Schema) -> Schema:
    replicas, policy = v1["properties"]["tfReplicaSpecs"], v1["properties"]["runPolicy"]["properties"]
    members = {
        "cleanPodPolicy": _without_default(policy["cleanPodPolicy"]),
        "tfReplicaSpecs": _replicas(replicas),
        "ttlSecondsAfterFinishing": policy["ttlSecondsAfterFinished"],
    }
    return {"description": v1["description"], "type": "object", "required": ["tfReplicaSpecs"], "properties": members}


def _replicas(v1: Schema) -> Schema:
    replica = v1["additionalProperties"]
    members = replica["properties"]
    members["restartPolicy"] = _without_default(members["restartPolicy"]) | {
        "description": f"{members['restartPolicy']['description']} Unset: the template's, else Always."
    }
    own = {name: members[name] for name in ("replicas", "restartPolicy", "template")}
    return {
        **v1,
        "description": 'The replicas by type: PS, Worker, Chief, Eval. For example {"PS": {...}, "Worker": {...}}.',
        "maxProperties": len(_TYPES),
        "additionalProperties": {**replica, "properties": own},
        "x-kubernetes-validations": [dict(rule.on_change) for rule in _RULES],
    }


def _without_default(schema: Schema) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "default"}
