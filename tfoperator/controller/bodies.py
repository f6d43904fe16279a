"""Makes the creations of one plan: decodes each template at most once, and renders the cluster once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property

import msgspec

from tfoperator.api.parameter_server import parameter_server_template
from tfoperator.api.templates import is_absent
from tfoperator.api.v1.types import ReplicaSpec, ReplicaType, TFJob
from tfoperator.controller.accelerators import equip
from tfoperator.controller.actions import PlanOptions, PodCreate, ServiceCreate
from tfoperator.controller.checkpoint import mount_checkpoint
from tfoperator.controller.cluster_arguments import ClusterArguments
from tfoperator.controller.gang import GangScheduler
from tfoperator.controller.job_state import CHIEF_TYPES
from tfoperator.controller.pods import pod_body, pod_restart_policy
from tfoperator.controller.replicas import ReplicaGroup
from tfoperator.controller.services import service_body
from tfoperator.controller.templates import Template, TemplateError
from tfoperator.controller.tf_config import TFConfig

__all__ = ["Bodies"]


class Bodies:
    """The creations of one job in one plan. Its methods raise TemplateError if a template can't be used."""

    def __init__(
        self,
        job: TFJob,
        groups: Sequence[ReplicaGroup],
        options: PlanOptions,
        gang: GangScheduler | None = None,
    ) -> None:
        """With `gang` the pods are made members of the job's PodGroup."""
        self._job = job
        self._groups = groups
        self._options = options
        self._gang = gang
        self._templates: dict[ReplicaType, Template] = {}
        self._has_chief = any(group.type in CHIEF_TYPES and group.size > 0 for group in groups)

    def name(self, group: ReplicaGroup, index: int) -> str:
        """The name of a replica's pod and service."""
        return self._options.object_name(self._job, group.type, index)

    def pod(self, group: ReplicaGroup, index: int, restarts: int) -> PodCreate:
        """The pod of a replica that has been restarted `restarts` times, this start included."""
        name = self.name(group, index)
        body = pod_body(
            self._job,
            self.template(group),
            group.type,
            index,
            name=name,
            policy=group.policy,
            is_master=self._is_master(group.type, index),
            tf_config=None if self._tf_config is None else self._tf_config.render(group.type, index),
            restarts=restarts,
            arguments=() if self._arguments is None else self._arguments.render(group.type, index),
        )
        return PodCreate(group.type, index, name, body)

    def service(self, group: ReplicaGroup, index: int) -> ServiceCreate:
        """The service of a replica."""
        name = self.name(group, index)
        body = service_body(self._job, self.template(group), group.type, index, name=name)
        return ServiceCreate(group.type, index, name, body)

    def overrules_restart_policy(self, group: ReplicaGroup) -> bool:
        """Whether the template asks for another restart policy than the pods get."""
        own = self.template(group).restart_policy
        return bool(own) and own != pod_restart_policy(group.policy)

    def keeps_another_scheduler(self, group: ReplicaGroup) -> bool:
        """Whether the template names a scheduler that knows nothing of the gang."""
        return self._gang is not None and self.template(group).scheduler_name != self._gang.name

    @cached_property
    def _tf_config(self) -> TFConfig | None:
        """None for a job of a single replica: it has nobody to find (the Go operator's rule)."""
        if sum(group.size for group in self._groups) == 1:
            return None
        return TFConfig(
            self._hosts,
            sparse=bool(self._job.spec.enable_dynamic_worker),
            evaluator_in_cluster=self._evaluator_in_cluster,
        )

    @cached_property
    def _arguments(self) -> ClusterArguments | None:
        """None for a job that didn't ask for them."""
        if not self._job.spec.cluster_arguments:
            return None
        return ClusterArguments(self._hosts, evaluator_in_cluster=self._evaluator_in_cluster)

    @property
    def _evaluator_in_cluster(self) -> bool:
        own = self._job.spec.evaluator_in_cluster
        return self._options.evaluator_in_cluster if own is None else own

    @cached_property
    def _hosts(self) -> dict[ReplicaType, list[str]]:
        """The `host:port` of every replica by type, in index order."""
        namespace = self._job.metadata.namespace
        domain = f".{self._options.cluster_domain}" if self._options.cluster_domain else ""
        return {
            group.type: [
                f"{self.name(group, index)}.{namespace}.svc{domain}:{self.template(group).port}"
                for index in range(group.size)
            ]
            for group in self._groups
            if group.size > 0
        }

    def template(self, group: ReplicaGroup) -> Template:
        """The group's template with all that is added to it. Raises TemplateError."""
        template = self._templates.get(group.type)
        if template is None:
            if group.spec is None:
                raise TemplateError(f"spec.tfReplicaSpecs[{group.type}]: must not be null")
            template = Template(group.type, self._with_template(group.type, group.spec))
            equip(template, self._options.accelerators)
            mount_checkpoint(template, self._job)
            if self._gang is not None:
                self._gang.enrol(template, self._job, group.type)
            self._templates[group.type] = template
        return template

    def _with_template(self, replica_type: ReplicaType, spec: ReplicaSpec) -> ReplicaSpec:
        if replica_type is not ReplicaType.PS or not is_absent(spec.template):
            return spec
        image = self._options.default_ps_image
        if not image:
            raise TemplateError(
                f"spec.tfReplicaSpecs[{replica_type}].template: is required, for this operator has no image for a "
                "stock parameter server (--default-ps-image)"
            )
        return msgspec.structs.replace(spec, template=_stock_template(image))

    def _is_master(self, replica_type: ReplicaType, index: int) -> bool:
        if self._has_chief:
            return replica_type in CHIEF_TYPES
        return replica_type is ReplicaType.WORKER and index == 0


@cache
def _stock_template(image: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(parameter_server_template(image)))
