"""Makes the pods and services of one job. Decodes each template at most once, and renders TF_CONFIG's cluster once."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import msgspec

from tfoperator.api.fields.limits import MAX_REPLICAS
from tfoperator.api.replicas.data_service import DATA_SERVICE
from tfoperator.api.replicas.host_lists import ALWAYS_ACCEPTED, PER_HOST, HostList, too_long
from tfoperator.api.replicas.names import (
    ANNOTATION_DISRUPTIONS,
    ANNOTATION_JOB_DISRUPTIONS,
    ANNOTATION_JOB_RESTARTS,
    ANNOTATION_RESTARTS,
    TF_CONFIG,
    replica_labels,
)
from tfoperator.api.replicas.parameter_server import parameter_server_template
from tfoperator.api.replicas.process_variables import PROCESS_TYPES, ProcessVariables
from tfoperator.api.replicas.templates import is_absent
from tfoperator.api.v1.choices import Network, ReplicaType, RestartMode, RestartPolicy, RestartScope
from tfoperator.api.v1.types import ReplicaSpec, TFJob
from tfoperator.controller.pods.additions import add_accelerators, add_restart_rule, give_access, mount_checkpoint
from tfoperator.controller.pods.bodies import (
    ReplicaPod,
    headless_service,
    job_service_body,
    pod_body,
    pod_restart_policy,
)
from tfoperator.controller.pods.cluster import Abbreviations, ClusterArguments, TFConfig
from tfoperator.controller.pods.data_service import data_service_url
from tfoperator.controller.pods.gang import GangScheduler
from tfoperator.controller.pods.options import PodOptions
from tfoperator.controller.pods.template import PodTemplateError, Template

CHIEF_TYPES = (ReplicaType.CHIEF, ReplicaType.MASTER)
"""The replica types that lead a job. If a job has neither, worker 0 leads."""

_REFERENCE = re.compile(r"\$\((_[A-Z_]*)\)")

_POLICIES = {policy.value: policy for policy in RestartPolicy}


def restarts_together(job: TFJob) -> bool:
    """Return whether all replicas of the job restart when one replica must restart (`runPolicy.restartScope`)."""
    return job.spec.policy.restart_scope == RestartScope.JOB


def restarts_in_place(job: TFJob) -> bool:
    """Return whether the job has `runPolicy.restartMode: InPlace`.

    The result is False if all replicas restart together, because such a restart needs new pods.
    """
    return job.spec.policy.restart_mode == RestartMode.IN_PLACE and not restarts_together(job)


class DesiredReplicas(msgspec.Struct, frozen=True):
    """The wanted replicas of one type. `spec` is None for a type that is no longer in the job's spec."""

    type: ReplicaType
    spec: ReplicaSpec | None
    size: int
    policy: RestartPolicy


def template_path(replica_type: str) -> str:
    """Return the path of a replica type's template in the job."""
    return f"spec.tfReplicaSpecs[{replica_type}].template"


def desired_size(spec: ReplicaSpec | None) -> int:
    """Return the number of replicas that a spec requests, from 0 to MAX_REPLICAS. An unset number counts as 1."""
    wanted = spec.replicas if spec is not None else 0
    return min(max(1 if wanted is None else wanted, 0), MAX_REPLICAS)


def desired_policy(spec: ReplicaSpec | None) -> RestartPolicy:
    """Return the restart policy of a spec. If the spec names no known policy, return Never."""
    policy = spec.restart_policy if spec is not None else None
    return _POLICIES.get(policy or "", RestartPolicy.NEVER)


class _Cluster(NamedTuple):
    """The cluster description for a job's replicas.

    A job of a single replica has no TF_CONFIG, since it has no peers (the Go operator has the same rule). A job gets
    arguments only if its spec requests them. TF_CONFIG and the arguments may refer to `variables`. If each replica has
    a service, TF_CONFIG and the arguments refer to no variables: their text equals the Go operator's text, byte by
    byte.

    `processes` contains the variables of Keras 3 and JAX, which number the processes of a job. `first_process` maps a
    replica type to the process number of its first replica. Replicas of any other type do not get these variables.
    `data_service` is the address of the job's data service; it is empty if the job has no data service.
    """

    tf_config: TFConfig | None
    arguments: ClusterArguments | None
    variables: Mapping[str, str]
    processes: ProcessVariables | None
    first_process: Mapping[ReplicaType, int]
    data_service: str = ""

    def env(self, replica_type: ReplicaType, index: int, own: Collection[str]) -> dict[str, str]:
        """Return the variables that a replica gets. Each variable comes before the variables that refer to it.

        `own` has the names of the variables that the template sets. The operator leaves out its variables of Keras, JAX
        and the data service that have such a name. TF_CONFIG is never left out for this reason.
        """
        variables = {**self.variables}
        if self.tf_config is not None:
            variables[TF_CONFIG] = self.tf_config.render(replica_type, index)
        first = self.first_process.get(replica_type)
        if self.processes is not None and first is not None:
            of_process = self.processes.of_process(first + index)
            variables |= {name: value for name, value in of_process.items() if name not in own}
        if self.data_service and replica_type is not ReplicaType.PS and DATA_SERVICE not in own:
            variables[DATA_SERVICE] = self.data_service
        return variables

    def arguments_of(self, replica_type: ReplicaType, index: int) -> tuple[str, ...]:
        """Return the arguments that the operator appends to the replica's own arguments."""
        return () if self.arguments is None else self.arguments.render(replica_type, index)


class PodCounts(NamedTuple):
    """The restarts of a replica before its new pod: their number, and how many of them followed disruptions.

    In addition, all replicas of the job have been restarted together `job_restarts` times; `job_disruptions` of these
    restarts followed disruptions.
    """

    restarts: int = 0
    disruptions: int = 0
    job_restarts: int = 0
    job_disruptions: int = 0

    def by_annotation(self) -> dict[str, int]:
        """Return the counts, by the name of the pod's annotation for each count."""
        return {
            ANNOTATION_RESTARTS: self.restarts,
            ANNOTATION_DISRUPTIONS: self.disruptions,
            ANNOTATION_JOB_RESTARTS: self.job_restarts,
            ANNOTATION_JOB_DISRUPTIONS: self.job_disruptions,
        }


class ReplicaManifests:
    """Makes the manifests of one job's pods and services, for one plan.

    Its methods raise PodTemplateError if a template can't be used. Their results may share parts: encode them, don't
    change them.
    """

    def __init__(
        self,
        job: TFJob,
        groups: Sequence[DesiredReplicas],
        options: PodOptions,
        gang: GangScheduler | None = None,
    ) -> None:
        """Initialize.

        `options` contains the naming and the network that this job already uses (see naming.py), which may differ from
        the operator's options. With `gang` the pods are members of the gang's PodGroup.
        """
        self._job = job
        self._groups = groups
        self._options = options
        self._gang = gang
        self._templates: dict[ReplicaType, Template] = {}
        self._has_chief = any(group.type in CHIEF_TYPES and group.size > 0 for group in groups)

    def name(self, group: DesiredReplicas, index: int) -> str:
        """Return the name of a wanted replica's pod.

        If the replica has a service of its own, the service has the same name.
        """
        return self._names[group.type][index]

    def pod(self, group: DesiredReplicas, index: int, counts: PodCounts) -> dict[str, Any]:
        """Return the pod of a replica. The annotations of the pod record the replica's earlier restarts."""
        is_master = self._is_master(group.type, index)
        replica = ReplicaPod(
            name=self.name(group, index),
            labels=replica_labels(self._job.metadata.name, group.type, index, is_master=is_master),
            restart_policy=self._restart_policy(group),
            subdomain=self._subdomain,
            env=self._cluster.env(group.type, index, self._own_variables(group)),
            arguments=self._cluster.arguments_of(group.type, index),
            restarts=counts.by_annotation(),
        )
        return pod_body(self._job, self.template(group), replica)

    def service(self, group: DesiredReplicas, index: int) -> dict[str, Any]:
        """Return the service of a replica."""
        labels = replica_labels(self._job.metadata.name, group.type, index, is_master=False)
        ports = self.template(group).service_ports
        return headless_service(self._job, self.name(group, index), labels, {"ports": ports})

    def job_service(self) -> dict[str, Any]:
        """Return the service of all replicas."""
        return job_service_body(self._job, name=self._options.naming.job(self._job))

    def overrules_host_name(self, group: DesiredReplicas) -> bool:
        """Return whether the template sets a host name that differs from the name by which replicas find each other."""
        return bool(self._subdomain) and self.template(group).has_own_host_name

    def overrules_restart_policy(self, group: DesiredReplicas) -> bool:
        """Return whether the template requests a restart policy that differs from the pods' policy."""
        own = self.template(group).restart_policy
        return bool(own) and own != self._restart_policy(group)

    def overrules_tf_config(self, group: DesiredReplicas) -> bool:
        """Return whether the template sets TF_CONFIG itself, but the pods get the operator's TF_CONFIG."""
        return TF_CONFIG in self._own_variables(group) and self._cluster.tf_config is not None

    def _own_variables(self, group: DesiredReplicas) -> frozenset[str]:
        return frozenset(str(variable.get("name")) for variable in self.template(group).env)

    def _restart_policy(self, group: DesiredReplicas) -> str:
        return pod_restart_policy(group.policy, together=restarts_together(self._job))

    def keeps_another_scheduler(self, group: DesiredReplicas) -> bool:
        """Return whether the template names a scheduler that can't schedule the gang."""
        return self._gang is not None and self.template(group).scheduler_name != self._gang.name

    @cached_property
    def too_many_hosts(self) -> str:
        """If the list of hosts is too long, the reason why no process of the job can start; else empty."""
        if sum(len(listed) * PER_HOST + sum(map(len, listed)) for listed in self._hosts.values()) <= ALWAYS_ACCEPTED:
            return ""
        hosts = {kind: HostList(len(listed), sum(map(len, listed))) for kind, listed in self._hosts.items()}
        spec = self._job.spec
        return too_long(hosts, dynamic=bool(spec.enable_dynamic_worker), arguments=bool(spec.cluster_arguments))

    @cached_property
    def _cluster(self) -> _Cluster:
        groups = [group for group in self._groups if group.size > 0]
        abbreviations = None
        if self._subdomain:
            abbreviations = _abbreviations([self.template(group) for group in groups])
        tf_config = arguments = None
        if sum(group.size for group in groups) != 1:
            sparse = bool(self._job.spec.enable_dynamic_worker)
            tf_config = TFConfig(self._hosts, sparse=sparse, abbreviations=abbreviations)
        if self._job.spec.cluster_arguments:
            arguments = ClusterArguments(self._hosts, abbreviations=abbreviations)
        variables = {} if abbreviations is None else abbreviations.variables
        data_service = "" if self._job.spec.data_service is None else data_service_url(self._job, self._options)
        return _Cluster(tf_config, arguments, variables, *self._processes(groups), data_service)

    def _processes(
        self, groups: Sequence[DesiredReplicas]
    ) -> tuple[ProcessVariables | None, Mapping[ReplicaType, int]]:
        """Return the variables of Keras and JAX, and the number of the first process of each type.

        The result is None and empty if the job has one process (which needs no such variables), parameter servers (such
        a job does not use the variables) or dynamic workers (JAX does not allow a change of the number of processes).
        """
        if self._job.spec.enable_dynamic_worker or any(group.type is ReplicaType.PS for group in groups):
            return None, {}
        addresses: list[str] = []
        first: dict[ReplicaType, int] = {}
        for replica_type in PROCESS_TYPES:
            hosts = self._hosts.get(replica_type, ())
            if hosts:
                first[replica_type] = len(addresses)
                addresses += hosts
        return (ProcessVariables(addresses), first) if len(addresses) > 1 else (None, {})

    @property
    def _evaluator_in_cluster(self) -> bool:
        own = self._job.spec.evaluator_in_cluster
        return self._options.evaluator_in_cluster if own is None else own

    @cached_property
    def _subdomain(self) -> str:
        """The name of the job's one service. It is empty if each replica has its own service."""
        return self._options.naming.job(self._job) if self._options.network is Network.PER_JOB else ""

    @cached_property
    def _names(self) -> dict[ReplicaType, list[str]]:
        """The names of every replica's objects by type, in index order."""
        name = self._options.naming.replica
        return {
            group.type: [name(self._job, group.type, index) for index in range(group.size)] for group in self._groups
        }

    @cached_property
    def _hosts(self) -> dict[ReplicaType, list[str]]:
        """The `host:port` of every replica that TF_CONFIG's cluster lists, by type and in index order."""
        domain = f".{self._options.cluster_domain}" if self._options.cluster_domain else ""
        service = f".{self._subdomain}" if self._subdomain else ""
        within = f"{service}.{self._job.metadata.namespace}.svc{domain}"
        ends = {group.type: f"{within}:{self.template(group).port}" for group in self._groups if group.size > 0}
        if not self._evaluator_in_cluster:
            ends.pop(ReplicaType.EVALUATOR, None)
        return {replica_type: [name + end for name in self._names[replica_type]] for replica_type, end in ends.items()}

    def template(self, group: DesiredReplicas) -> Template:
        """Return the group's template with all additions. Raises PodTemplateError."""
        template = self._templates.get(group.type)
        if template is None:
            if group.spec is None:
                raise PodTemplateError(f"spec.tfReplicaSpecs[{group.type}]: must not be null")
            template = Template(template_path(group.type), self._with_template(group.type, group.spec).template)
            self._add_to(template, group.type)
            if self._options.restart_rules and restarts_in_place(self._job):
                add_restart_rule(template, self._job, group.policy)
            self._templates[group.type] = template
        return template

    def _add_to(self, template: Template, replica_type: ReplicaType) -> None:
        job, access, own = self._job, self._options.progress, self._job.spec.progress
        if self._options.accelerators:
            add_accelerators(template, self._options.accelerators)
        if job.spec.checkpoint is not None:
            mount_checkpoint(template, job.spec.checkpoint, job.metadata)
        if access is not None and (access.for_all if own is None else own.enabled is not False):
            give_access(template, access, job.metadata)
        if self._gang is not None:
            self._gang.add_member(template, job, replica_type)

    def _with_template(self, replica_type: ReplicaType, spec: ReplicaSpec) -> ReplicaSpec:
        if replica_type is not ReplicaType.PS or not is_absent(spec.template):
            return spec
        image = self._options.default_ps_image
        if not image:
            raise PodTemplateError(
                f"spec.tfReplicaSpecs[{replica_type}].template: is required, because this operator has no image for "
                "the stock parameter server (--default-ps-image)"
            )
        return msgspec.structs.replace(spec, template=_stock_template(image))

    def _is_master(self, replica_type: ReplicaType, index: int) -> bool:
        if self._has_chief:
            return replica_type in CHIEF_TYPES
        return replica_type is ReplicaType.WORKER and index == 0


def _abbreviations(templates: Sequence[Template]) -> Abbreviations:
    """Return abbreviations with variable names that no template sets or refers to.

    The variables of `envFrom` are not known here. So if a template uses `envFrom`, the function chooses unlikely names.
    """
    containers = [template.containers[template.container] for template in templates]
    taken = {str(variable.get("name")) for template in templates for variable in template.env}
    taken.update(
        name for container in containers for name in _REFERENCE.findall(msgspec.json.encode(container).decode())
    )
    return Abbreviations(taken, "_TF_HOSTS" if any(container.get("envFrom") for container in containers) else "_")


@cache
def _stock_template(image: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(parameter_server_template(image)))
