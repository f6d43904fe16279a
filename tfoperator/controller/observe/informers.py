"""The caches that the controller reads: their informers and indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from tfoperator.api.cached_job import decode_job_for_cache
from tfoperator.api.replicas import names
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller.kinds import ObjectKind
from tfoperator.controller.kueue.keeper import KueueInformers
from tfoperator.controller.kueue.objects import Priority, decode_priority
from tfoperator.controller.pods.gang import GangScheduler
from tfoperator.controller.pods.pod_groups import PodGroup, decode_pod_group
from tfoperator.informers import (
    CONTROLLER_UID_INDEX,
    ORPHANS_INDEX,
    InformerGroup,
    Lister,
    SharedInformerFactory,
    index_by_controller_uid,
    index_orphans,
)
from tfoperator.kube import Selection
from tfoperator.kube.protocol.resources import DEPLOYMENTS, PODS, PRIORITY_CLASSES, SERVICES, Resource
from tfoperator.kube.protocol.verbs import Decoder
from tfoperator.kube.views.deployments import Deployment, decode_deployment
from tfoperator.kube.views.objects import (
    HasMetadata,
    Pod,
    Service,
    decode_pod,
    decode_service,
)

T = TypeVar("T", bound=HasMetadata)


class ControllerInformers(msgspec.Struct, frozen=True):
    """The caches that a controller reads.

    Of pods, services, deployments and PodGroups, the caches contain only the objects with the operator's label.
    Deployments are watched even if no job has a TensorBoard: a watch without events costs the API server almost
    nothing, and then the first job with a TensorBoard need not wait for a cache. There are PodGroups if there is a gang
    scheduler (`gang`), PriorityClasses if the scheduler's PodGroups contain resources, and Workloads and flavors if the
    operator handles jobs in queues of Kueue.
    """

    jobs: InformerGroup[TFJob]
    pods: InformerGroup[Pod]
    services: InformerGroup[Service]
    deployments: InformerGroup[Deployment]
    gang: GangScheduler | None = None
    pod_groups: InformerGroup[PodGroup] | None = None
    priority_classes: InformerGroup[Priority] | None = None
    kueue: KueueInformers | None = None

    @classmethod
    def of(
        cls, factory: SharedInformerFactory, gang: GangScheduler | None = None, *, kueue: bool = False
    ) -> ControllerInformers:
        """Return the informers from a factory, with the indexes that a controller needs.

        The caller starts the factory afterwards.
        """
        pod_groups, priority_classes = None, None
        if gang is not None:
            pod_groups = _owned_objects(factory, gang.pod_groups, decode_pod_group)
            if not gang.is_kubernetes:
                priority_classes = factory.informer(PRIORITY_CLASSES, decode_priority)
        return cls(
            jobs=factory.informer(TFJOBS, decode_job_for_cache),
            pods=_owned_objects(factory, PODS, decode_pod),
            services=_owned_objects(factory, SERVICES, decode_service),
            deployments=_owned_objects(factory, DEPLOYMENTS, decode_deployment),
            gang=gang,
            pod_groups=pod_groups,
            priority_classes=priority_classes,
            kueue=KueueInformers.of(factory) if kueue else None,
        )

    @property
    def owned(self) -> dict[ObjectKind, Lister[Any]]:
        """The caches of the objects that jobs own, by kind."""
        groups: dict[ObjectKind, InformerGroup[Any] | None] = {
            "pods": self.pods,
            "services": self.services,
            "deployments": self.deployments,
            "podgroups": self.pod_groups,
        }
        return {kind: group.lister for kind, group in groups.items() if group is not None}

    def wait_for_sync(self, queues_within: float) -> None:
        """Wait until every cache is complete, has failed, or is stopped.

        Wait for Kueue's caches at most `queues_within` seconds. Without Kueue's objects, the jobs in queues wait, but
        the controller can work on all other jobs.
        """
        owned = (self.jobs, self.pods, self.services, self.deployments, self.pod_groups, self.priority_classes)
        for group in owned:
            if group is not None:
                group.wait_for_sync(None)
        if self.kueue is not None:
            self.kueue.wait_for_sync(queues_within)


def priorities_of(classes: Sequence[Priority]) -> dict[str, int]:
    """Return the priorities by the names of classes; the key "" has the priority of pods without a class."""
    priorities = {priority_class.metadata.name: priority_class.value for priority_class in classes}
    priorities[""] = next((priority_class.value for priority_class in classes if priority_class.global_default), 0)
    return priorities


def _owned_objects(factory: SharedInformerFactory, resource: Resource, decode: Decoder[T]) -> InformerGroup[T]:
    return factory.informer(
        resource,
        decode,
        Selection(label_selector=names.MANAGED_SELECTOR),
        indexers={CONTROLLER_UID_INDEX: index_by_controller_uid, ORPHANS_INDEX: index_orphans},
    )
