"""The options of an administrator: each with its flag, its default, its parser and its help.

One table describes every option, so that its flag `--resync-period`, its variable `TFOPERATOR_RESYNC_PERIOD` and its
key `resync-period` (or `resyncPeriod`) in the file can't drift apart, and a mistake is reported by the name under which
it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from tfoperator.api.names import WEBHOOK_SECRET, WEBHOOK_SERVICE
from tfoperator.api.progress_names import PROGRESS_SECRET, PROGRESS_SERVICE
from tfoperator.api.v1.types import CleanPodPolicy, Network
from tfoperator.controller import DEFAULT_TENSORBOARD_IMAGE, Accelerator, SchedulingRules
from tfoperator.operator.options import values as parse
from tfoperator.operator.options.pod_settings import parse_accelerators, parse_scheduling
from tfoperator.servers.http.limits import Address


class OptionsError(ValueError):
    """An option is wrong. The message names the option as it was given."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's options. Times are seconds, sizes bytes. `tfoperator operator --help` explains each.

    `config` is the path of the file that some of them were read from; empty if there is none. `accelerators` and
    `scheduling` can only be set there.

    The lease is tried every second, twice as often as Go controllers do, so that a standby notices in time that the
    leader has stepped down: with its jitter, after 2.2 s at the latest.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: tuple[str, ...] = ()
    threadiness: int = 8
    create_parallelism: int = 16
    metrics_bind_address: Address | None = Address("127.0.0.1", 8080)
    metrics_secure: bool = False
    metrics_cert_dir: str = ""
    health_probe_bind_address: Address | None = Address("127.0.0.1", 8081)
    leader_elect: bool = False
    leader_elect_namespace: str = ""
    leader_elect_id: str = "tfoperator"
    leader_elect_lease_duration: float = 15.0
    leader_elect_renew_deadline: float = 10.0
    leader_elect_retry_period: float = 1.0
    kube_api_qps: float = 0.0
    kube_api_burst: int = 100
    resync_period: float = 15.0
    reconcile_max_period: float = 300.0
    gang_scheduler_name: str = ""
    kueue: bool = False
    cluster_domain: str = ""
    evaluator_in_cluster: bool = True
    default_clean_pod_policy: str = ""
    default_network: str = Network.PER_REPLICA.value
    default_ps_image: str = ""
    default_tensorboard_image: str = DEFAULT_TENSORBOARD_IMAGE
    exposed_tensorboards: bool = False
    unique_names: bool = False
    archive_dir: str = ""
    archive_max_bytes: int = 10 << 30
    archive_max_log_bytes: int = 64 << 20
    archive_timeout: float = 30.0
    stall_stacks: bool = False
    restart_delay_base: float = 1.0
    restart_delay_cap: float = 300.0
    shutdown_grace_period: float = 25.0
    webhook_bind_address: Address | None = None
    webhook_namespace: str = ""
    webhook_service: str = WEBHOOK_SERVICE
    webhook_secret: str = WEBHOOK_SECRET
    webhook_url: str = ""
    webhook_cert_dir: str = ""
    webhook_certificate_validity: float = 90 * 86400.0
    webhook_shutdown_delay: float = 0.0
    progress_bind_address: Address | None = None
    progress_default: bool = False
    progress_namespace: str = ""
    progress_service: str = PROGRESS_SERVICE
    progress_secret: str = PROGRESS_SECRET
    progress_url: str = ""
    progress_writes_per_second: float = 25.0
    log_format: str = "text"
    log_level: str = "info"
    accelerators: Mapping[str, Accelerator] = {}
    scheduling: SchedulingRules = SchedulingRules()
    config: str = ""


class Setting(NamedTuple):
    """The spellings of one option. `name` is that of its flag, without the leading dashes."""

    name: str
    parse: Callable[[object], Any]
    metavar: str
    help: str

    @property
    def field(self) -> str:
        """Its field in `Options`."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"TFOPERATOR_{self.field.upper()}"


SETTINGS = (
    Setting("kubeconfig", parse.text, "PATH", "kubeconfig file; else KUBECONFIG, ~/.kube/config, in-cluster"),
    Setting("context", parse.text, "NAME", "context of the kubeconfig"),
    Setting("namespace", parse.namespaces, "NS", "look after these namespaces only (default: all)"),
    Setting("threadiness", parse.integer(1, 256), "N", "jobs synced at a time"),
    Setting(
        "create-parallelism",
        parse.integer(1, 256),
        "N",
        "creates, deletes and patches in flight, of all jobs",
    ),
    Setting("metrics-bind-address", parse.address, "ADDR", "/metrics; :8080 for every interface, 0 for none"),
    Setting("metrics-secure", parse.boolean, "BOOL", "/metrics over HTTPS, for whom the API server lets get it"),
    Setting("metrics-cert-dir", parse.text, "DIR", "its tls.crt and tls.key (default: one of its own making)"),
    Setting("health-probe-bind-address", parse.address, "ADDR", "/healthz and /readyz; as above"),
    Setting("leader-elect", parse.boolean, "BOOL", "run several replicas, of which one leads"),
    Setting("leader-elect-namespace", parse.text, "NS", "namespace of the lease (default: our own)"),
    Setting("leader-elect-id", parse.text, "NAME", "name of the lease"),
    Setting("leader-elect-lease-duration", parse.duration, "TIME", "when a silent leader may be replaced"),
    Setting("leader-elect-renew-deadline", parse.duration, "TIME", "when a leader that can't renew gives up"),
    Setting("leader-elect-retry-period", parse.duration, "TIME", "between two tries to get or renew the lease"),
    Setting(
        "kube-api-qps",
        parse.number,
        "N",
        "at most so many requests per second to the API server; 0 or less for no limit",
    ),
    Setting("kube-api-burst", parse.integer(1, 100_000), "N", "requests at once before that limit holds"),
    Setting("resync-period", parse.duration, "TIME", "shortest interval of the comparison with the live state"),
    Setting("reconcile-max-period", parse.duration, "TIME", "longest interval of that comparison"),
    Setting("gang-scheduler-name", parse.text, "NAME", "volcano, kubernetes, or one with the coscheduling plugin"),
    Setting("kueue", parse.boolean, "BOOL", "drive jobs in queues of Kueue whose own framework for TFJobs is off"),
    Setting("cluster-domain", parse.text, "DOMAIN", "appended to host names in TF_CONFIG, e.g. cluster.local"),
    Setting("evaluator-in-cluster", parse.boolean, "BOOL", "list evaluators in TF_CONFIG's cluster"),
    Setting("default-clean-pod-policy", parse.choice(*CleanPodPolicy), "POLICY", "for jobs that leave theirs unset"),
    Setting("default-network", parse.choice(*Network), "NETWORK", "of new jobs that leave theirs unset"),
    Setting("default-ps-image", parse.text, "IMAGE", "image with TensorFlow for parameter servers without a template"),
    Setting("default-tensorboard-image", parse.text, "IMAGE", "image for TensorBoards that name none of their own"),
    Setting("exposed-tensorboards", parse.boolean, "BOOL", "their serviceType may be NodePort or LoadBalancer"),
    Setting("unique-names", parse.boolean, "BOOL", "end the names of pods and services in a piece of the job's UID"),
    Setting(
        "archive-dir", parse.text, "DIR", "keep logs of ended containers there, a directory or s3://, gs://, az://"
    ),
    Setting("archive-max-bytes", parse.size, "SIZE", "of the whole archive; the namespace with most loses first"),
    Setting("archive-max-log-bytes", parse.size, "SIZE", "of one container's log; its end is kept"),
    Setting("archive-timeout", parse.duration, "TIME", "how long a pod's logs may take, and its deletion waits"),
    Setting("stall-stacks", parse.boolean, "BOOL", "keep stacks of stalled jobs there, by a command in their pods"),
    Setting("restart-delay-base", parse.seconds, "TIME", "from a program's start to its first restart; it doubles"),
    Setting("restart-delay-cap", parse.seconds, "TIME", "longest delay of a restart"),
    Setting("shutdown-grace-period", parse.duration, "TIME", "for running syncs to finish after SIGTERM"),
    Setting("webhook-bind-address", parse.address, "ADDR", "conversion webhook for v1alpha2; :9443, 0 for none"),
    Setting("webhook-namespace", parse.text, "NS", "namespace of its Service and Secret (default: our own)"),
    Setting("webhook-service", parse.text, "NAME", "Service by which API servers reach it"),
    Setting("webhook-secret", parse.text, "NAME", "Secret in which replicas keep its certificate"),
    Setting("webhook-url", parse.https_url, "URL", "address of the webhook, instead of a Service"),
    Setting("webhook-cert-dir", parse.text, "DIR", "read tls.crt and tls.key here instead of making them"),
    Setting("webhook-certificate-validity", parse.duration, "TIME", "life of a certificate; it is renewed after 2/3"),
    Setting("webhook-shutdown-delay", parse.seconds, "TIME", "after SIGTERM the webhook answers at least so long"),
    Setting("progress-bind-address", parse.address, "ADDR", "take reports of training programs; :9444, 0 for none"),
    Setting("progress-default", parse.boolean, "BOOL", "tell jobs where to report that leave spec.progress unset"),
    Setting("progress-namespace", parse.text, "NS", "namespace of its Service and Secret (default: our own)"),
    Setting("progress-service", parse.text, "NAME", "Service by which pods reach it"),
    Setting("progress-secret", parse.text, "NAME", "Secret in which replicas keep its certificate"),
    Setting("progress-url", parse.https_url, "URL", "its address for pods, instead of a Service"),
    Setting(
        "progress-writes-per-second", parse.number, "N", "statuses that this replica writes because of reports, at most"
    ),
    Setting("log-format", parse.choice("text", "json"), "FORMAT", "text or json"),
    Setting("log-level", parse.choice("debug", "info", "warning", "error"), "LEVEL", "debug, info, warning or error"),
)
"""Options that are flags, variables and keys of the file."""
FILE_ONLY = (
    Setting("accelerators", parse_accelerators, "", "what containers that ask for an accelerator get"),
    Setting("scheduling", parse_scheduling, "", "priority classes and queues that jobs' PodGroups may name"),
)
"""Options that only the file can set."""
SETTINGS_BY_NAME = {setting.name: setting for setting in (*SETTINGS, *FILE_ONLY)}
