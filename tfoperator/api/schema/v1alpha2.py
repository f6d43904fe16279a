"""The schema with which API servers check v1alpha2 jobs: the schema of v1 with the names of v1alpha2.

This schema is derived from the schema of v1, so it can't lack a bound or rule of v1. This is needed because API servers
check a job in the version in which a client writes it, and don't check it again after its conversion. An annotation
keeps the fields that v1alpha2 lacks (`tfoperator.api.conversion`), and rules can't check an annotation. So this schema
also has the immutable fields, although v1alpha2 itself never had them. A status is accepted with all its members.

`restartPolicy` has no default here, though its default is Always: an API server would set the default before the
conversion runs. Then the conversion could not use the template's own policy, which has precedence over the default. The
conversion writes the policy that applies into the v1 job.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.api.schema.cel_rules import LEADER_NAMES, larger_job_rule, new_job_rules, replica_rules
from tfoperator.api.schema.pod_schemas import without_descriptions
from tfoperator.api.schema.structs import Schema

V1ALPHA2_TYPES = ("PS", "Worker", "Chief", "Master", "Eval", "Evaluator", "Local")
_RULES = replica_rules(
    V1ALPHA2_TYPES,
    [
        ("Chief", "Master", LEADER_NAMES),
        ("Eval", "Evaluator", "they are two names for one type"),
        ("Local", "Worker", "Local is a Worker without others"),
    ],
)

_TYPE_NAME = "(type.lowerAscii() == 'eval' ? 'evaluator' : type.lowerAscii() == 'local' ? 'worker' : type.lowerAscii())"


def v1alpha2_schema(hub: Schema) -> Schema:
    """Return the structural schema of a v1alpha2 TFJob, made from a copy of `hub`, the schema of v1."""
    schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(hub))  # five times as fast as copy.deepcopy
    members = schema["properties"]
    members["spec"] = _spec(members["spec"])
    members["status"] = _status(members["status"])
    schema["x-kubernetes-validations"] = [*new_job_rules(_RULES, _TYPE_NAME), larger_job_rule(_TYPE_NAME)]
    return schema


def _status(v1: Schema) -> Schema:
    """Return the schema of the status with v1alpha2's names.

    The members of the status have no descriptions: with descriptions, the CRD of both versions is too large for
    client-side `kubectl apply`.
    """
    members = without_descriptions(v1)["properties"]
    members["tfReplicaStatuses"] = members.pop("replicaStatuses")
    return {**v1, "properties": dict(sorted(members.items()))}


def _spec(v1: Schema) -> Schema:
    replicas, policy = v1["properties"]["tfReplicaSpecs"], v1["properties"]["runPolicy"]["properties"]
    members = {
        "cleanPodPolicy": policy["cleanPodPolicy"],
        "network": v1["properties"]["network"],
        "runPolicy": _policy(v1["properties"]["runPolicy"]),
        "tfReplicaSpecs": _replicas(replicas),
        "ttlSecondsAfterFinishing": policy["ttlSecondsAfterFinished"],
    }
    unchangeable = (".network", ".runPolicy.managedBy")
    rules = [rule for rule in v1["x-kubernetes-validations"] if rule["fieldPath"] in unchangeable]
    return {
        "description": v1["description"],
        "type": "object",
        "required": ["tfReplicaSpecs"],
        "properties": members,
        "x-kubernetes-validations": rules,
    }


def _policy(v1: Schema) -> Schema:
    """Return the schema of the immutable fields with v1's rules, but without defaults.

    An API server must not add these fields to a job that lacks them.
    """
    members = v1["properties"]
    scheduling = members["schedulingPolicy"]
    own = {"queue": scheduling["properties"]["queue"]}
    return {
        "description": "Policies for the whole job. The object has only the fields that can't be changed.",
        "type": "object",
        "properties": {"managedBy": members["managedBy"], "schedulingPolicy": {**scheduling, "properties": own}},
    }


def _replicas(v1: Schema) -> Schema:
    replica = v1["additionalProperties"]
    members = replica["properties"]
    members["restartPolicy"] = _without_default(members["restartPolicy"]) | {
        "description": f"{members['restartPolicy']['description']} If unset: the restartPolicy of the template, or "
        "Always if the template has none."
    }
    # Client-side `kubectl apply` keeps a copy of the CRD in an annotation, which has no room for a second copy of the
    # descriptions.
    template = without_descriptions(members["template"]) | {"description": members["template"]["description"]}
    own = {"replicas": members["replicas"], "restartPolicy": members["restartPolicy"], "template": template}
    return {
        **v1,
        "description": 'The replicas by type: PS, Worker, Chief, Eval. For example {"PS": {...}, "Worker": {...}}.',
        "maxProperties": len(V1ALPHA2_TYPES),
        "additionalProperties": {**replica, "properties": own},
        "x-kubernetes-validations": [dict(rule.on_change) for rule in _RULES],
    }


def _without_default(schema: Schema) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "default"}
