"""The caches that the controller reads: which informers it needs, and who is told when something in one changes."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tfoperator.api import names
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.controller.children import ChildKind
from tfoperator.controller.gang import GangScheduler, PodGroup, decode_pod_group
from tfoperator.controller.gang_size import PriorityClass, decode_priority_class
from tfoperator.controller.handlers import ChildHandler, Enqueue, JobHandler
from tfoperator.expectations import Expectations
from tfoperator.informers import (
    CONTROLLER_UID_INDEX,
    ORPHANS_INDEX,
    InformerGroup,
    SharedInformerFactory,
    index_by_controller_uid,
    index_orphans,
)
from tfoperator.kube.objects import (
    Deployment,
    HasMetadata,
    Pod,
    Service,
    decode_deployment,
    decode_pod,
    decode_service,
)
from tfoperator.kube.resources import DEPLOYMENTS, PODS, PRIORITY_CLASSES, SERVICES, Resource
from tfoperator.kube.verbs import Decoder

__all__ = ["ControllerInformers"]

T = TypeVar("T", bound=HasMetadata)


class ControllerInformers(msgspec.Struct, frozen=True):
    """The caches that a controller reads. What jobs make is in them only if it carries our label.

    Deployments are watched whether a job has a TensorBoard or not: a watch without events costs the API server next to
    nothing, and the first job that wants one doesn't have to wait for a cache. PodGroups and PriorityClasses are there
    if there is a gang scheduler, `gang`.
    """

    jobs: InformerGroup[TFJob]
    pods: InformerGroup[Pod]
    services: InformerGroup[Service]
    deployments: InformerGroup[Deployment]
    gang: GangScheduler | None = None
    pod_groups: InformerGroup[PodGroup] | None = None
    priority_classes: InformerGroup[PriorityClass] | None = None

    @classmethod
    def of(cls, factory: SharedInformerFactory, gang: GangScheduler | None = None) -> ControllerInformers:
        """The informers of a factory, with the indexes that a controller needs; start the factory afterwards."""
        pod_groups, priority_classes = None, None
        if gang is not None:
            pod_groups = _children(factory, gang.pod_groups, decode_pod_group)
            priority_classes = factory.informer(PRIORITY_CLASSES, decode_priority_class)
        return cls(
            jobs=factory.informer(TFJOBS, decode_tfjob),
            pods=_children(factory, PODS, decode_pod),
            services=_children(factory, SERVICES, decode_service),
            deployments=_children(factory, DEPLOYMENTS, decode_deployment),
            gang=gang,
            pod_groups=pod_groups,
            priority_classes=priority_classes,
        )

    @property
    def synced(self) -> bool:
        """Whether every cache is complete."""
        caches = (self.jobs, self.pods, self.services, self.deployments, self.pod_groups, self.priority_classes)
        return all(cache.has_synced for cache in caches if cache is not None)

    def connect(self, handler: JobHandler, expectations: Expectations, enqueue: Enqueue) -> None:
        """From now on have `handler` told of jobs, `expectations` of what they control, and `enqueue` whose that is.

        No handler gets resyncs: those are the reconciler's business.
        """
        self.jobs.add_handler(handler, resync_period=0, name="controller")

        def follow(kind: ChildKind, group: InformerGroup[T]) -> None:
            children = ChildHandler[T](kind, self.jobs.lister, expectations, enqueue)
            group.add_handler(children, resync_period=0, name="controller")

        follow("pods", self.pods)
        follow("services", self.services)
        follow("deployments", self.deployments)
        if self.pod_groups is not None:
            follow("podgroups", self.pod_groups)


def _children(factory: SharedInformerFactory, resource: Resource, decode: Decoder[T]) -> InformerGroup[T]:
    return factory.informer(
        resource,
        decode,
        label_selector=names.MANAGED_SELECTOR,
        indexers={CONTROLLER_UID_INDEX: index_by_controller_uid, ORPHANS_INDEX: index_orphans},
    )
