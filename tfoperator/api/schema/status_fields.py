"""The CRD's additions for the status of a TFJob, which the operator writes."""

from __future__ import annotations

from tfoperator.api.schema.structs import Field
from tfoperator.api.v1 import status
from tfoperator.api.validation.limits import MAX_BEHIND, MAX_SHOWN_METRICS

STATUS_FIELDS: dict[type, dict[str, Field]] = {
    status.TFJobStatus: {
        "phase": Field("Pending, Running, Succeeded, Failed or Unknown."),
        "ready": Field("How many replicas are ready, of how many: 3/4."),
        "restarts": Field("How often replicas were started again; all together count once."),
        "jobRestarts": Field("How often all were started again together (restartScope: Job)."),
        "conditions": Field("What was observed about the job; the latest stands last."),
        "replicaStatuses": Field("What the replicas of each type do."),
        "startTime": Field("When the job was started (again, after a suspension)."),
        "completionTime": Field("When the job ended."),
        "tensorBoard": Field("Where the job's TensorBoard is."),
        "progress": Field("What the training program has reported about itself."),
        "usage": Field("What the job's time went to."),
        "lastReconcileTime": Field("When the job was last compared with what the API server holds."),
        "network": Field("PerJob if started with one service for all replicas."),
        "observedGeneration": Field("The metadata.generation that this status was made for.", {"format": "int64"}),
    },
    status.TrainingProgress: {
        "completion": Field("How much of the training is done: 43%."),
        "eta": Field("How long the rest will take: 3m20s."),
        "percentage": Field("How much of the training is done, from 0 to 100."),
        "step": Field("The step: the metric current_step.", {"format": "int64"}),
        "totalSteps": Field("Steps in all: the metric total_steps.", {"format": "int64"}),
        "estimatedRemainingSeconds": Field("Seconds that the rest will take.", {"format": "int64"}),
        "metrics": Field("What else was reported.", {"maxItems": MAX_SHOWN_METRICS}),
        "replica": Field("Whose report this is: worker-0."),
        "reportTime": Field("When that report came."),
        "lastUpdatedTime": Field("When any replica has reported last."),
        "behind": Field("The replicas furthest behind, where several report.", {"maxItems": MAX_BEHIND}),
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
        "name": Field("Name of the metric, such as loss."),
        "value": Field("Its value, as the program wrote it."),
    },
    status.ReplicaProgress: {
        "name": Field("The replica: worker-0."),
        "step": Field("The step that it has reported last.", {"format": "int64"}),
        "lastUpdatedTime": Field("When it has reported last."),
    },
    status.JobCondition: {
        "type": Field("Created, Running, Ready, Restarting, Stalled, Suspended, Succeeded or Failed."),
        "status": Field("True, False or Unknown."),
        "reason": Field("Why, in one word for programs."),
        "message": Field("Why, in a sentence for people."),
        "lastUpdateTime": Field("When the condition was last written."),
        "lastTransitionTime": Field("When its status last changed."),
    },
    status.TensorBoardStatus: {
        "url": Field("The address of its page."),
        "ready": Field("Whether the page answers."),
    },
    status.ReplicaStatus: {
        "active": Field("How many pods run; 0 when the job has ended."),
        "succeeded": Field("How many have succeeded."),
        "failed": Field("How many have failed."),
        "ready": Field("How many are ready."),
        "restarts": Field("How often replicas of this type were started again."),
        "restartCounts": Field("Restarts of each replica, by index, where there were any."),
        "completedIndexes": Field("Indexes that have succeeded: 0,2-5."),
        "failedIndexes": Field("Indexes that have failed for good: 1,3."),
        "startedIndexes": Field("Indexes that have had a pod: 0-3."),
        "selector": Field("The workers' pods, for autoscalers."),
        "labelSelector": Field(
            "Written by other operators.", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        ),
    },
}
