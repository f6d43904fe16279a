"""The administrator's options. Each option is declared once, with its name, type, default, meaning and bounds.

Each field of `Options` is an option. For example, the declaration of `resync_period` is the source for the flag
`--resync-period`, the environment variable `TFOPERATOR_RESYNC_PERIOD`, the key `resync-period` (or `resyncPeriod`) in
the configuration file, the line in `--help` and the row in docs/options.md. hack/options.py compares the Helm chart's
values with the declaration.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, get_args

import msgspec

from tfoperator.api.replicas.names import WEBHOOK_SECRET, WEBHOOK_SERVICE
from tfoperator.api.replicas.progress_names import PROGRESS_SECRET, PROGRESS_SERVICE
from tfoperator.api.v1.choices import CleanPodPolicy, Network
from tfoperator.controller import Accelerator, SchedulingRules
from tfoperator.operator.options.pod_settings import ACCELERATORS, SCHEDULING
from tfoperator.operator.options.values import (
    ADDRESSES,
    BOOLEANS,
    DELAYS,
    DURATIONS,
    HTTPS_URLS,
    NAMESPACES,
    NUMBERS,
    POSITIVE_NUMBERS,
    SIZES,
    ValueKind,
    choices,
    integers,
    texts,
)
from tfoperator.servers.http.limits import Address


class OptionsError(ValueError):
    """An option or its value is not valid, options exclude each other, or the configuration file can't be read.

    The message names the flag, the environment variable or the key of the configuration file.
    """


class Option(msgspec.Struct, frozen=True):
    """The facts about an option, in addition to the type and the default of its field.

    - `meaning` is the option's line in `--help` and in docs/options.md.
    - `kind` defines which values the option takes.
    - `chart_value` is the path of a value of the Helm chart, for example `metrics.secure`. The chart passes this value
      unchanged to the option. If `chart_value` is empty, the chart has no such value, and users of the chart set the
      option by the chart's values `extraArgs` or `config`.
    - `on_command_line` is true if a flag and an environment variable can set the option.
    - `in_file` is true if a key of the configuration file can set the option.
    """

    meaning: str
    kind: ValueKind
    chart_value: str = ""
    on_command_line: bool = True
    in_file: bool = True


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's options. Times are in seconds, and sizes are in bytes.

    The order of the fields is their order in `--help` and in docs/options.md.
    """

    config: Annotated[
        str, Option("YAML file with options, accelerators and scheduling", texts("FILE"), in_file=False)
    ] = ""
    kubeconfig: Annotated[
        str, Option("kubeconfig file; else KUBECONFIG, ~/.kube/config, in-cluster", texts("PATH"))
    ] = ""
    context: Annotated[str, Option("context of the kubeconfig", texts("NAME"))] = ""
    namespace: Annotated[
        tuple[str, ...], Option("work on these namespaces only (default: all)", NAMESPACES, chart_value="namespaces")
    ] = ()
    threadiness: Annotated[int, Option("number of jobs that are synced at the same time", integers(1, 256))] = 8
    create_parallelism: Annotated[
        int, Option("number of requests that change objects at the same time, for all jobs", integers(1, 256))
    ] = 16
    metrics_bind_address: Annotated[
        Address | None, Option("address of /metrics; :8080 for all interfaces, 0 for none", ADDRESSES)
    ] = Address("127.0.0.1", 8080)
    metrics_secure: Annotated[
        bool,
        Option("serve /metrics over HTTPS, only to clients that RBAC allows", BOOLEANS, chart_value="metrics.secure"),
    ] = False
    metrics_cert_dir: Annotated[
        str,
        Option(
            "folder with tls.crt and tls.key for /metrics (default: the operator creates a certificate)", texts("DIR")
        ),
    ] = ""
    metrics_per_job: Annotated[
        bool, Option("export the goodput of each job as a separate series", BOOLEANS, chart_value="metrics.perJob")
    ] = False
    health_probe_bind_address: Annotated[
        Address | None, Option("address of /healthz and /readyz; :8081 for all interfaces, 0 for none", ADDRESSES)
    ] = Address("127.0.0.1", 8081)
    leader_elect: Annotated[bool, Option("use leader election, so that a single replica leads", BOOLEANS)] = False
    leader_elect_namespace: Annotated[
        str, Option("namespace of the lease (default: the operator's own namespace)", texts("NS"))
    ] = ""
    leader_elect_id: Annotated[str, Option("name of the lease", texts("NAME"))] = "tfoperator"
    leader_elect_lease_duration: Annotated[
        float, Option("time after which another replica may replace a leader that does not renew the lease", DURATIONS)
    ] = 15.0
    leader_elect_renew_deadline: Annotated[
        float, Option("time after which a leader that can't renew the lease stops leading", DURATIONS)
    ] = 10.0
    # Go controllers have 2 s. With 1 s and the jitter, a standby notices after 2.2 s at the latest that the leader has
    # released the lease.
    leader_elect_retry_period: Annotated[
        float, Option("time between two attempts to get or renew the lease", DURATIONS)
    ] = 1.0
    kube_api_qps: Annotated[
        float, Option("maximum number of requests per second to the API server; 0 or less for no limit", NUMBERS)
    ] = 0.0
    kube_api_burst: Annotated[
        int, Option("number of requests that may exceed --kube-api-qps at once", integers(1, 100_000))
    ] = 100
    resync_period: Annotated[
        float, Option("shortest time between two comparisons of a job's cached objects with the API server", DURATIONS)
    ] = 15.0
    reconcile_max_period: Annotated[
        float, Option("longest time between two comparisons of a job's cached objects with the API server", DURATIONS)
    ] = 300.0
    gang_scheduler_name: Annotated[
        str,
        Option(
            "gang scheduler: volcano, kubernetes, or the name of a scheduler with the coscheduling plugin",
            texts("NAME"),
            chart_value="gangSchedulerName",
        ),
    ] = ""
    kueue: Annotated[
        bool,
        Option(
            "manage jobs in queues of Kueue; Kueue's own integration for TFJobs must be off",
            BOOLEANS,
            chart_value="kueue.enabled",
        ),
    ] = False
    cluster_domain: Annotated[
        str, Option("domain that is appended to host names in TF_CONFIG, e.g. cluster.local", texts("DOMAIN"))
    ] = ""
    evaluator_in_cluster: Annotated[bool, Option("include evaluators in the cluster in TF_CONFIG", BOOLEANS)] = True
    default_clean_pod_policy: Annotated[
        str,
        Option(
            "cleanPodPolicy of jobs that do not set it",
            choices("POLICY", *CleanPodPolicy),
            chart_value="defaultCleanPodPolicy",
        ),
    ] = ""
    default_network: Annotated[
        str,
        Option("network of new jobs that do not set it", choices("NETWORK", *Network), chart_value="defaultNetwork"),
    ] = Network.PER_REPLICA.value
    default_ps_image: Annotated[
        str, Option("image with TensorFlow, for parameter servers without a template", texts("IMAGE"))
    ] = ""
    # Images of TensorFlow 2.21 and later do not contain TensorBoard, because it has become a separate package.
    default_tensorboard_image: Annotated[
        str, Option("image for TensorBoards that do not set an image", texts("IMAGE", required=True))
    ] = "tensorflow/tensorflow:2.19.0"
    exposed_tensorboards: Annotated[
        bool,
        Option(
            "allow the serviceTypes NodePort and LoadBalancer for TensorBoards",
            BOOLEANS,
            chart_value="exposedTensorboards",
        ),
    ] = False
    unique_names: Annotated[bool, Option("add a part of the job's UID to the names of pods and services", BOOLEANS)] = (
        False
    )
    archive_dir: Annotated[
        str, Option("place for the logs of ended containers: a directory or s3://, gs://, az://", texts("DIR"))
    ] = ""
    archive_max_bytes: Annotated[
        int,
        Option(
            "maximum size of the archive; if it is full, logs of the namespace with most logs are removed first",
            SIZES,
            chart_value="logArchive.maxBytes",
        ),
    ] = 10 << 30
    archive_max_log_bytes: Annotated[
        int, Option("maximum size of one container's log; the end of the log is kept", SIZES)
    ] = 64 << 20
    archive_timeout: Annotated[
        float, Option("maximum time for copying a pod's logs; the pod's deletion waits at most this time", DURATIONS)
    ] = 30.0
    stall_stacks: Annotated[
        bool,
        Option(
            "keep the stacks of stalled jobs in --archive-dir, by running a command in their pods",
            BOOLEANS,
            chart_value="stallStacks.enabled",
        ),
    ] = False
    restart_delay_base: Annotated[
        float, Option("least time from a program's start to its first restart; it doubles with each restart", DELAYS)
    ] = 1.0
    restart_delay_cap: Annotated[float, Option("longest delay before a restart", DELAYS)] = 300.0
    shutdown_grace_period: Annotated[float, Option("time for running syncs to finish after SIGTERM", DURATIONS)] = 25.0
    webhook_bind_address: Annotated[
        Address | None,
        Option("address of the conversion webhook for v1alpha2; :9443 for all interfaces, 0 for none", ADDRESSES),
    ] = None
    webhook_namespace: Annotated[
        str,
        Option("namespace of the webhook's Service and Secret (default: the operator's own namespace)", texts("NS")),
    ] = ""
    webhook_service: Annotated[str, Option("Service through which API servers reach the webhook", texts("NAME"))] = (
        WEBHOOK_SERVICE
    )
    webhook_secret: Annotated[
        str, Option("Secret for the webhook's certificate, which all replicas of the operator share", texts("NAME"))
    ] = WEBHOOK_SECRET
    webhook_url: Annotated[str, Option("URL of the webhook, instead of a Service", HTTPS_URLS)] = ""
    webhook_cert_dir: Annotated[
        str,
        Option(
            "folder with the webhook's tls.crt and tls.key (default: the operator creates a certificate)", texts("DIR")
        ),
    ] = ""
    webhook_certificate_validity: Annotated[
        float, Option("lifetime of a certificate; it is renewed after 2/3 of this time", DURATIONS)
    ] = 90 * 86400.0
    webhook_shutdown_delay: Annotated[
        float, Option("minimum time for which the webhook still answers after SIGTERM", DELAYS)
    ] = 0.0
    progress_bind_address: Annotated[
        Address | None,
        Option("address for reports of training programs; :9444 for all interfaces, 0 for none", ADDRESSES),
    ] = None
    progress_default: Annotated[
        bool,
        Option(
            "let jobs report their progress also if they do not set spec.progress",
            BOOLEANS,
            chart_value="progress.forAllJobs",
        ),
    ] = False
    progress_namespace: Annotated[
        str,
        Option(
            "namespace of the progress server's Service and Secret (default: the operator's own namespace)", texts("NS")
        ),
    ] = ""
    progress_service: Annotated[str, Option("Service through which pods reach the progress server", texts("NAME"))] = (
        PROGRESS_SERVICE
    )
    progress_secret: Annotated[
        str,
        Option("Secret for the progress server's certificate, which all replicas of the operator share", texts("NAME")),
    ] = PROGRESS_SECRET
    progress_url: Annotated[
        str,
        Option("URL at which pods reach the progress server. By default, they reach it through a Service", HTTPS_URLS),
    ] = ""
    progress_writes_per_second: Annotated[
        float,
        Option(
            "maximum number of job statuses per second that an operator replica writes because of progress reports",
            POSITIVE_NUMBERS,
        ),
    ] = 25.0
    log_format: Annotated[str, Option("text or json", choices("FORMAT", "text", "json"), chart_value="logFormat")] = (
        "text"
    )
    log_level: Annotated[
        str,
        Option(
            "level of the log: debug, info, warning or error", choices("LEVEL", "debug", "info", "warning", "error")
        ),
    ] = "info"
    accelerators: Annotated[
        Mapping[str, Accelerator],
        Option("settings of containers that request an accelerator", ACCELERATORS, on_command_line=False),
    ] = {}
    scheduling: Annotated[
        SchedulingRules,
        Option("priority classes and queues that PodGroups of jobs may use", SCHEDULING, on_command_line=False),
    ] = SchedulingRules()


class Setting(NamedTuple):
    """An option with its default. `field` is the name of its field in `Options`."""

    field: str
    option: Option
    default: Any

    @property
    def name(self) -> str:
        """The option's name: the flag without its two dashes, and the key in the configuration file."""
        return self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        """The name of the option's environment variable."""
        return f"TFOPERATOR_{self.field.upper()}"

    @property
    def written_default(self) -> str:
        """The default as text for `--help`, or "" if the default is empty or the option has no flag."""
        if self.default in ("", (), None) or not self.option.on_command_line:
            return ""
        return self.option.kind.write(self.default)


def settings_of(options: type[Options]) -> tuple[Setting, ...]:
    """Return the options that a struct declares, in the order of its fields.

    Raises TypeError if a field has no declaration.
    """
    defaults = options()
    return tuple(
        Setting(field.name, _declaration(field), getattr(defaults, field.name))
        for field in msgspec.structs.fields(options)
    )


def _declaration(field: msgspec.structs.FieldInfo) -> Option:
    for declared in get_args(field.type)[1:]:
        if isinstance(declared, Option) and declared.meaning:
            return declared
    raise TypeError(
        f"the option {field.name} has no description: declare it in tfoperator/operator/options/settings.py as "
        f'{field.name}: Annotated[TYPE, Option("MEANING", KIND)] = DEFAULT'
    )


SETTINGS = settings_of(Options)
"""All options, in the order of their declarations."""
