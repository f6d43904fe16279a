"""The CRD's additions for the status of a TFJob, which the operator writes."""

from __future__ import annotations

from tfoperator.api.schema.structs import Field
from tfoperator.api.v1 import status
from tfoperator.api.v1.disruptions import DisruptionBackoff
from tfoperator.api.validation.limits import MAX_BEHIND, MAX_NODE_FAILURES, MAX_SHOWN_METRICS

STATUS_FIELDS: dict[type, dict[str, Field]] = {
    status.TFJobStatus: {
        "phase": Field("Pending, Running, Succeeded, Failed or Unknown."),
        "ready": Field("Replicas that are ready, of all: 3/4."),
        "restarts": Field("Restarts; all replicas together count once."),
        "jobRestarts": Field("Restarts of all (restartScope: Job)."),
        "disruptions": Field("Restarts after a pod was taken."),
        "jobDisruptions": Field("Such restarts of all."),
        "disruptionBackoff": Field("Disruptions in a row."),
        "conditions": Field("The Go operator's types, the latest last."),
        "operatorConditions": Field("Ready, Stalled, Straggling and Admitted."),
        "replicaStatuses": Field("The replicas by type."),
        "startTime": Field("When the job was started or resumed."),
        "completionTime": Field("When the job ended."),
        "tensorBoard": Field("Where the job's TensorBoard is."),
        "progress": Field("What the program reported."),
        "usage": Field("What the job's time went to."),
        "lastReconcileTime": Field("Last comparison with the cluster."),
        "nodeFailures": Field("Failures in a row, by replica/node.", {"maxProperties": MAX_NODE_FAILURES}),
        "network": Field("PerJob: one service for all replicas."),
        "observedGeneration": Field("The metadata.generation of then.", {"format": "int64"}),
    },
    DisruptionBackoff: {
        "count": Field("How many in a row."),
        "since": Field("When the last one was."),
        "replicas": Field("What it took, by type: 0,2-5."),
    },
    status.TrainingProgress: {
        "completion": Field("How much is done: 43%."),
        "eta": Field("Time left: 3m20s."),
        "percentage": Field("The same, from 0 to 100."),
        "step": Field("The step: the metric current_step.", {"format": "int64"}),
        "totalSteps": Field("Steps in all: the metric total_steps.", {"format": "int64"}),
        "estimatedRemainingSeconds": Field("Seconds left.", {"format": "int64"}),
        "metrics": Field("What else was reported.", {"maxItems": MAX_SHOWN_METRICS}),
        "replica": Field("Whose report this is: worker-0."),
        "reportTime": Field("When that report came."),
        "lastUpdatedTime": Field("When any has reported last."),
        "behind": Field("Those furthest behind.", {"maxItems": MAX_BEHIND}),
        "slow": Field("Replicas with slow steps.", {"maxItems": MAX_BEHIND}),
    },
    status.JobUsage: {
        "phase": Field("queued, scheduling, starting, training, lost, stalled or suspended."),
        "since": Field("When that began."),
        "seconds": Field("Seconds in each phase until then.", {"additionalProperties": {"format": "int64"}}),
        "source": Field("Reports, or Pods: what tells it."),
        "goodput": Field("The share that trained: 87%."),
        "step": Field("Highest step so far.", {"format": "int64"}),
        "stepTime": Field("When."),
        "restarts": Field("Restarts in it."),
        "resources": Field("What the pods hold, by resource."),
        "resourcesSince": Field("When they were summed."),
    },
    status.ResourceUsage: {
        "inUse": Field("What is requested now."),
        "requestedSeconds": Field("That, times seconds on nodes."),
        "trainedSeconds": Field("Those that trained."),
    },
    status.Metric: {
        "name": Field("Such as loss."),
        "value": Field("Its value."),
    },
    status.ReplicaProgress: {
        "name": Field("worker-0."),
        "step": Field("Its last step.", {"format": "int64"}),
        "lastUpdatedTime": Field("When it reported last."),
        "factor": Field("Of a slow one: 2.1."),
    },
    status.JobCondition: {
        "type": Field("Such as Running, or Ready."),
        "status": Field("True, False or Unknown."),
        "reason": Field("For programs."),
        "message": Field("For people."),
        "lastUpdateTime": Field("When it was last written."),
        "lastTransitionTime": Field("When its status last changed."),
    },
    status.TensorBoardStatus: {
        "url": Field("Its address."),
        "ready": Field("Whether it answers."),
    },
    status.ReplicaStatus: {
        "active": Field("Pods that run; 0 when it has ended."),
        "succeeded": Field("How many succeeded."),
        "failed": Field("How many failed."),
        "ready": Field("How many are ready."),
        "restarts": Field("Restarts of this type."),
        "restartCounts": Field("Restarts by index, if any."),
        "disruptions": Field("Restarts after a pod was taken."),
        "disruptionCounts": Field("The same by index, if any."),
        "completedIndexes": Field("Those that succeeded: 0,2-5."),
        "failedIndexes": Field("Those that failed for good: 1,3."),
        "startedIndexes": Field("Those that had a pod: 0-3."),
        "selector": Field("The workers' pods, for autoscalers."),
        "labelSelector": Field(
            "Written by other operators.", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        ),
    },
}
