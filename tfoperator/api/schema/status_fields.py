"""The CRD's additions for the status of a TFJob, which the operator writes."""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.api.schema.structs import Field
from tfoperator.api.v1 import status
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.disruptions import DisruptionBackoff
from tfoperator.api.validation.limits import MAX_BEHIND, MAX_NODE_FAILURES, MAX_NOT_A_NUMBER, MAX_SHOWN_METRICS

_PEERS = [one for one in ConditionType if one.traits.is_peers]
_OURS = [one for one in ConditionType if not one.traits.is_peers]


def _or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


STATUS_FIELDS: dict[type, dict[str, Field]] = {
    status.TFJobStatus: {
        "phase": Field("State of the job in one word: Pending, Running, Succeeded, Failed or Unknown."),
        "ready": Field("Number of replicas that are ready, and of all: 3/4."),
        "restarts": Field("Number of restarts after failures. A restart of all replicas together counts once."),
        "jobRestarts": Field("Number of restarts of all replicas together (restartScope: Job)."),
        "disruptions": Field(
            "Number of restarts after a pod was deleted, evicted or preempted, or lost with its node."
        ),
        "jobDisruptions": Field("Number of such restarts of all replicas together (restartScope: Job)."),
        "disruptionBackoff": Field("Disruptions in a row, for which the job waits longer each time."),
        "conditions": Field("Conditions of the types that the Go operator has; the latest stands last."),
        "operatorConditions": Field(f"Conditions of the types that only this operator has: {', '.join(_OURS)}."),
        "replicaStatuses": Field("Numbers of replicas by type."),
        "startTime": Field("Time at which the job was started, or resumed after a suspension."),
        "completionTime": Field("Time at which the job ended."),
        "tensorBoard": Field("State of the job's TensorBoard, and its address."),
        "progress": Field("Progress of the training, as the program reported it last."),
        "usage": Field("Use of the job's time and resources."),
        "lastReconcileTime": Field("Time of the last comparison with the cluster."),
        "nodeFailures": Field(
            "Number of failures in a row on a node, by replica and node: worker-0/node-1.",
            {"maxProperties": MAX_NODE_FAILURES},
        ),
        "network": Field("Network with which the job was started. PerJob: one service for all replicas."),
        "observedGeneration": Field(
            "The metadata.generation of the job to which this status belongs.", {"format": "int64"}
        ),
    },
    DisruptionBackoff: {
        "count": Field("Number of disruptions in a row."),
        "since": Field("Time of the last disruption."),
        "replicas": Field("Indexes of the replicas that the disruption took, by type: 0,2-5."),
    },
    status.TrainingProgress: {
        "completion": Field("Share of the training that is done: 43%."),
        "eta": Field("Estimated time until the end: 3m20s."),
        "percentage": Field("Share of the training that is done, as a number from 0 to 100."),
        "step": Field("Step of the training: the metric current_step.", {"format": "int64"}),
        "totalSteps": Field("Number of steps in all: the metric total_steps.", {"format": "int64"}),
        "estimatedRemainingSeconds": Field("Estimated seconds until the end.", {"format": "int64"}),
        "metrics": Field("The other metrics that were reported.", {"maxItems": MAX_SHOWN_METRICS}),
        "replica": Field("Replica whose report this is: worker-0."),
        "reportTime": Field("Time at which that report came."),
        "lastUpdatedTime": Field("Time at which any replica has reported last."),
        "behind": Field("The replicas that are furthest behind.", {"maxItems": MAX_BEHIND}),
        "slow": Field("The replicas whose steps take much longer than those of the others.", {"maxItems": MAX_BEHIND}),
        "lossNotANumber": Field(
            "Number of reports in a row in which a metric named loss is not a number; larger ones are not counted.",
            {"maximum": MAX_NOT_A_NUMBER},
        ),
    },
    status.JobUsage: {
        "phase": Field("Current use of the time: queued, scheduling, starting, training, lost, stalled or suspended."),
        "since": Field("Time at which the current phase began."),
        "seconds": Field(
            "Seconds that the job has spent in each phase before the current one.",
            {"additionalProperties": {"format": "int64"}},
        ),
        "source": Field("Source of these figures: Reports of the program, or the state of its Pods."),
        "goodput": Field("Share of the time in which the job trained: 87%."),
        "step": Field("Highest step so far.", {"format": "int64"}),
        "stepTime": Field("Time at which the highest step was reported."),
        "restarts": Field("Number of restarts that these figures include."),
        "resources": Field("Resources that the pods of the job hold, by the name of the resource."),
        "resourcesSince": Field("Time at which the resources were summed up last."),
    },
    status.ResourceUsage: {
        "inUse": Field("Amount that the pods request now."),
        "requestedSeconds": Field("Amount that the pods requested, times the seconds for which they were on nodes."),
        "trainedSeconds": Field("The part of requestedSeconds in which the job trained."),
    },
    status.Metric: {
        "name": Field("Name of the metric, such as loss."),
        "value": Field("Value of the metric."),
    },
    status.ReplicaProgress: {
        "name": Field("Name of the replica: worker-0."),
        "step": Field("Last step that the replica reported.", {"format": "int64"}),
        "lastUpdatedTime": Field("Time of the last report of the replica."),
        "factor": Field(
            "Duration of the replica's steps, as a multiple of the usual duration: 2.1. Only of slow replicas."
        ),
    },
    status.JobCondition: {
        "type": Field(f"Type of the condition: {_or(_PEERS)}. In operatorConditions: {_or(_OURS)}."),
        "status": Field("Whether the condition holds: True, False or Unknown."),
        "reason": Field("Reason of the last change, in one word for programs."),
        "message": Field("Reason of the last change, in a sentence for people."),
        "lastUpdateTime": Field("Time at which the condition was last written."),
        "lastTransitionTime": Field("Time at which the status of the condition last changed."),
    },
    status.TensorBoardStatus: {
        "url": Field("Address of the TensorBoard."),
        "ready": Field("Whether the TensorBoard answers."),
    },
    status.ReplicaStatus: {
        "active": Field("Number of pods that run; 0 when the job has ended."),
        "succeeded": Field("Number of replicas that succeeded."),
        "failed": Field("Number of replicas that failed for good."),
        "ready": Field("Number of replicas that are ready."),
        "restarts": Field("Number of restarts of replicas of this type after failures."),
        "restartCounts": Field("Number of restarts by the index of the replica, where there were any."),
        "disruptions": Field(
            "Number of restarts after a pod was deleted, evicted or preempted, or lost with its node."
        ),
        "disruptionCounts": Field("Number of disruptions by the index of the replica, where there were any."),
        "completedIndexes": Field("Indexes of the replicas that succeeded: 0,2-5."),
        "failedIndexes": Field("Indexes of the replicas that failed for good: 1,3."),
        "startedIndexes": Field("Indexes of the replicas that had a pod: 0-3."),
        "selector": Field("Selector of the workers' pods, for autoscalers."),
        "labelSelector": Field(
            "Selector that other operators write; this operator does not read it.",
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        ),
    },
}
