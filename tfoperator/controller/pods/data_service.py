"""The pods and services of a job's data service (`spec.dataService`), as JSON-ready data.

Without a template of its own, a data service gets pods that resemble the pods of a training replica: the same image,
volumes, variables, CPU and memory. The reason is that the data workers read the data that the replica would have read.
The pods have no devices, sidecars or probes of the replica. The dispatcher and the data workers use the same template,
so a queue can count them as one pod set.

Every pod restarts its own program (`restartPolicy: Always`), after the kubelet's usual delay. A data worker keeps its
name when its pod is created again: the dispatcher and the clients find it under the same address.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from tfoperator.api.replicas.data_service import (
    DATA_SERVICE,
    DATA_SERVICE_ADDRESS,
    DATA_SERVICE_WORK_DIR,
    DEFAULT_DATA_SERVICE_PORT,
    DISPATCHER,
    PROGRAMS,
    DataServiceMember,
    DataServiceRole,
    member_labels,
)
from tfoperator.api.replicas.names import (
    ANNOTATION_RESTARTS,
    DEFAULT_CONTAINER_NAME,
    RECORDS_ON_PODS,
    TF_CONFIG,
    job_labels,
)
from tfoperator.api.replicas.templates import is_absent, template_dict
from tfoperator.api.v1.choices import Network, ReplicaType
from tfoperator.api.v1.parts.data_service import DataService
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.pods.additions import mount_checkpoint
from tfoperator.controller.pods.bodies import headless_service, owner_reference
from tfoperator.controller.pods.gang import GangScheduler
from tfoperator.controller.pods.options import PodOptions
from tfoperator.controller.pods.template import Template

DATA_SERVICE_FIELD = "spec.dataService"
_PATH = f"{DATA_SERVICE_FIELD}.template"
_PORT_NAME = "data-service"

_SOURCES = (ReplicaType.WORKER, ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.EVALUATOR)
"""The replica types from which a data service copies its pods. The first of these types in the job's spec is used."""

_OF_TRAINING = ("args", "lifecycle", "livenessProbe", "ports", "readinessProbe", "restartPolicy", "restartPolicyRules",
                "startupProbe", "stdin", "tty", "workingDir")  # fmt: skip
"""Fields of a training container that concern only its program."""

_OF_TRAINING_PODS = ("activeDeadlineSeconds", "hostname", "resourceClaims", "resources", "subdomain")
"""Fields of a training pod that the pods of its data service must not have: a deadline, names of its own,
and devices.
"""


def data_service_url(job: TFJob, options: PodOptions) -> str:
    """Return the address of the job's dispatcher, in the format of the argument `service` of tf.data's `distribute`."""
    return f"grpc://{_host(job, options, DISPATCHER)}"


def data_service_template(job: TFJob) -> msgspec.Raw:
    """Return the template of the pods of the job's data service.

    It is `spec.dataService.template`, or else a copy of a training replica's template. The result is empty if no
    replica has a template. Raises msgspec.ValidationError for a template of the wrong shape, and NotKept if only a hash
    of the template is available.
    """
    wanted = job.spec.data_service
    if wanted is not None and not is_absent(wanted.template):
        return wanted.template
    for replica_type in _SOURCES:
        spec = job.spec.tf_replica_specs.get(replica_type)
        if spec is not None and not is_absent(spec.template):
            return msgspec.Raw(msgspec.json.encode(_like(template_dict(spec.template))))
    return msgspec.Raw()


def is_in_gang(job: TFJob) -> bool:
    """Return whether the pods of the data service are members of the job's gang, if the job has a gang.

    With `minAvailable` the pods are not members: the scheduler would count them instead of replicas.
    """
    policy = job.spec.policy.scheduling_policy
    return policy is None or policy.min_available is None


class DataServiceManifests:
    """Makes the manifests of a job's data service, for one plan.

    Its methods raise PodTemplateError if the template can't be used. Their results may share parts: encode them, don't
    change them.
    """

    def __init__(self, job: TFJob, wanted: DataService, options: PodOptions, gang: GangScheduler | None = None) -> None:
        """Initialize.

        `options` contains the naming and the network that this job already uses (see naming.py), which may differ from
        the operator's options. The scheduler of `gang` places the pods. The pods are members of the gang's PodGroup
        only if the function `is_in_gang` returns true for this job.
        """
        self._job = job
        self._wanted = wanted
        self._options = options
        self._gang = gang

    def name(self, member: DataServiceMember) -> str:
        """Return the name of a member's pod. If the member has a service of its own, the service has the same name."""
        return self._options.naming.data_service(self._job, member)

    @cached_property
    def template(self) -> Template:
        """The template of the pods, with the checkpoint volume and the membership in the gang, if the job has them."""
        template = Template(_PATH, data_service_template(self._job))
        if self._job.spec.checkpoint is not None:
            mount_checkpoint(template, self._job.spec.checkpoint, self._job.metadata)
        if self._gang is not None and is_in_gang(self._job):
            self._gang.add_member(template, self._job, DataServiceRole.WORKER)
        elif self._gang is not None:
            self._gang.schedule(template)
        return template

    def pod(self, member: DataServiceMember, restarts: int) -> dict[str, Any]:
        """Return the pod of a member that was started `restarts` times before."""
        template, name = self.template, self.name(member)
        annotations = {key: value for key, value in template.annotations.items() if key not in RECORDS_ON_PODS}
        if restarts:
            annotations[ANNOTATION_RESTARTS] = str(restarts)
        containers = list(template.containers)
        containers[template.container] = self._container(template, member)
        spec = template.spec | {"restartPolicy": "Always", "containers": containers}
        if self._options.network is Network.PER_JOB:
            spec |= {"hostname": name, "subdomain": self._options.naming.job(self._job)}
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": self._job.metadata.namespace,
            "labels": template.labels | self._labels(member),
            "ownerReferences": [owner_reference(self._job)],
        }
        if annotations:
            metadata["annotations"] = annotations
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def service(self, member: DataServiceMember) -> dict[str, Any]:
        """Return the service of a member."""
        port = {"name": _PORT_NAME, "port": port_of(self._wanted)}
        # Data workers may connect to the dispatcher before the kubelet reports that it is ready.
        spec = {"publishNotReadyAddresses": True, "ports": [port]}
        return headless_service(self._job, self.name(member), self._labels(member), spec)

    def _labels(self, member: DataServiceMember) -> dict[str, str]:
        return job_labels(self._job.metadata.name) | member_labels(member)

    def _container(self, template: Template, member: DataServiceMember) -> dict[str, Any]:
        container, port = template.containers[template.container], port_of(self._wanted)
        ours = self._environment(member)
        env = [variable for variable in template.env if str(variable.get("name")) not in ours]
        others = [entry for entry in template.list_of_objects("ports") if entry.get("containerPort") != port]
        command = {} if container.get("command") else {"command": ["python", "-u", "-c", PROGRAMS[member[0]]]}
        return {
            # If the program fails, the status then shows the end of its log, for example that the image has no
            # TensorFlow.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **container,
            **command,
            "env": [*env, *({"name": name, "value": value} for name, value in ours.items())],
            "ports": [*others, {"name": _PORT_NAME, "containerPort": port}],
        }

    def _environment(self, member: DataServiceMember) -> Mapping[str, str]:
        variables = {
            DATA_SERVICE: data_service_url(self._job, self._options),
            DATA_SERVICE_ADDRESS: _host(self._job, self._options, member),
        }
        if member == DISPATCHER and self._wanted.work_dir:
            # The directory ends in the job's UID: a new job with the same name must not continue from the dispatcher's
            # journal of the earlier job.
            variables[DATA_SERVICE_WORK_DIR] = f"{self._wanted.work_dir.rstrip('/')}/{self._job.metadata.uid}"
        return variables


def port_of(wanted: DataService) -> int:
    """Return the port of the dispatcher and of each data worker."""
    return DEFAULT_DATA_SERVICE_PORT if wanted.port is None else wanted.port


def _host(job: TFJob, options: PodOptions, member: DataServiceMember) -> str:
    """Return the `host:port` of a member, in the format in which TF_CONFIG names replicas."""
    domain = f".{options.cluster_domain}" if options.cluster_domain else ""
    service = f".{options.naming.job(job)}" if options.network is Network.PER_JOB else ""
    port = DEFAULT_DATA_SERVICE_PORT if job.spec.data_service is None else port_of(job.spec.data_service)
    return f"{options.naming.data_service(job, member)}{service}.{job.metadata.namespace}.svc{domain}:{port}"


def _like(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template for data workers, made from the template of a training replica.

    If a part has the wrong shape, it stays unchanged: the replica's own pod reports the error.
    """
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(containers, list) or not containers:
        return template
    named = (item for item in containers if isinstance(item, dict) and item.get("name") == DEFAULT_CONTAINER_NAME)
    container = next(named, containers[0])
    if not isinstance(container, dict):
        return template
    own = {key: value for key, value in container.items() if key not in _OF_TRAINING and key != "command"}
    env = own.get("env")
    if isinstance(env, list):
        own["env"] = [
            variable for variable in env if not (isinstance(variable, dict) and variable.get("name") == TF_CONFIG)
        ]
    kept = {key: value for key, value in spec.items() if key not in _OF_TRAINING_PODS}
    kept["containers"] = [_without_devices(own)]
    init = kept.get("initContainers")
    if isinstance(init, list):
        kept["initContainers"] = [_without_devices(item) if isinstance(item, dict) else item for item in init]
    return template | {"spec": kept}


def _without_devices(container: dict[str, Any]) -> dict[str, Any]:
    """Return the container without its requests and limits of devices.

    A device is a resource whose name contains a domain, for example `nvidia.com/gpu`.
    """
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return container
    amounts = {
        kind: {name: amount for name, amount in resources[kind].items() if "/" not in name}
        for kind in ("limits", "requests")
        if isinstance(resources.get(kind), dict)
    }
    return container | {
        "resources": {kind: amounts_of_kind for kind, amounts_of_kind in amounts.items() if amounts_of_kind}
    }
