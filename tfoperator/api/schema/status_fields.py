"""The CRD's additions for the status of a TFJob, which the operator writes."""

from __future__ import annotations

from tfoperator.api.schema.structs import Field
from tfoperator.api.v1 import status
from tfoperator.api.validation.limits import MAX_BEHIND, MAX_SHOWN_METRICS

STATUS_FIELDS: dict[type, dict[str, Field]] = {
    status.TFJobStatus: {
        "phase": Field("Pending, Running, Succeeded, Failed or Unknown: the job's state in one word."),
        "ready": Field("How many replicas are ready, of how many: 3/4."),
        "restarts": Field("How often replicas were started again; all of them together count once."),
        "jobRestarts": Field("How often all replicas were started again together (restartScope: Job)."),
        "conditions": Field("What was observed about the job; the latest stands last."),
        "replicaStatuses": Field("What the replicas of each type do."),
        "startTime": Field("When the job was started (again, after a suspension)."),
        "completionTime": Field("When the job ended."),
        "tensorBoard": Field("Where the job's TensorBoard is."),
        "progress": Field("What the training program has reported about itself."),
        "lastReconcileTime": Field(
            "When the job was last compared with what the API server holds: at most 5 minutes and a resync ago, until "
            "the job ends (longer above 1,500 active jobs)."
        ),
        "network": Field("PerJob if the job was started with one service for all its replicas, else unset."),
        "observedGeneration": Field("The metadata.generation that this status was made for.", {"format": "int64"}),
    },
    status.TrainingProgress: {
        "completion": Field("How much of the training is done: 43%."),
        "eta": Field("How long the rest will take, by the program's own estimate: 3m20s."),
        "percentage": Field("How much of the training is done, from 0 to 100."),
        "step": Field("The step that the training is at: the metric current_step.", {"format": "int64"}),
        "totalSteps": Field("How many steps there are in all: the metric total_steps.", {"format": "int64"}),
        "estimatedRemainingSeconds": Field("Seconds that the rest will take.", {"format": "int64"}),
        "metrics": Field("What else was reported, as name and value; 16 at most.", {"maxItems": MAX_SHOWN_METRICS}),
        "replica": Field("Whose report this is: worker-0."),
        "reportTime": Field("When that report came."),
        "lastUpdatedTime": Field("When any replica has reported last."),
        "behind": Field(
            "The replicas that are furthest behind, where several report; 8 at most.", {"maxItems": MAX_BEHIND}
        ),
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
        "active": Field("How many pods run; 0 when the job has ended, whatever still runs."),
        "succeeded": Field("How many have succeeded."),
        "failed": Field("How many have failed."),
        "ready": Field("How many are ready."),
        "restarts": Field("How often replicas of this type were started again."),
        "restartCounts": Field("How often each replica was started again, by index, where it ever was."),
        "completedIndexes": Field("Indexes that have succeeded and won't run again: 0,2-5."),
        "failedIndexes": Field("Indexes that have failed for good and won't run again: 1,3."),
        "startedIndexes": Field("Indexes that have had a pod: 0-3."),
        "selector": Field("The label selector of the workers' pods, which autoscalers ask for."),
        "labelSelector": Field(
            "Written by other operators.", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        ),
    },
}
