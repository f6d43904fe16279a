"""What an administrator can choose, and from where: a flag, the environment, a YAML file, in this order.

One table describes every option, so that its flag `--resync-period`, its variable `TFOPERATOR_RESYNC_PERIOD` and its
key `resync-period` (or `resyncPeriod`) in the file can't drift apart, and a mistake is reported by the name under which
it was made.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec

import tfoperator
from tfoperator.api.progress_names import PROGRESS_SECRET, PROGRESS_SERVICE
from tfoperator.api.v1.types import CleanPodPolicy, Network
from tfoperator.api.webhook_names import WEBHOOK_SECRET, WEBHOOK_SERVICE
from tfoperator.controller import DEFAULT_TENSORBOARD_IMAGE, Accelerator, SchedulingRules
from tfoperator.durations import format_duration
from tfoperator.operator import option_parsers as parse
from tfoperator.operator.accelerators import parse_accelerators
from tfoperator.operator.option_parsers import Address
from tfoperator.operator.scheduling import parse_scheduling
from tfoperator.operator.shards import Shard, parse_shard


class OptionsError(ValueError):
    """An option is wrong. The message names the option as it was given."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's options. Times are seconds, sizes bytes. `tfoperator operator --help` explains each.

    `config` is the path of the file that some of them were read from; empty if there is none. `accelerators` and
    `scheduling` can only be said there.

    The lease is tried for every second, twice as often as Go controllers do, because that is what a standby needs to
    notice that the leader has stepped down: with its jitter, 2.2 s at the latest.
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
    shard: Shard | None = None
    leader_elect_lease_duration: float = 15.0
    leader_elect_renew_deadline: float = 10.0
    leader_elect_retry_period: float = 1.0
    kube_api_qps: float = 0.0
    kube_api_burst: int = 100
    resync_period: float = 15.0
    reconcile_max_period: float = 300.0
    max_status_delay: float = 2.0
    gang_scheduler_name: str = ""
    cluster_domain: str = ""
    evaluator_in_cluster: bool = True
    default_clean_pod_policy: str = ""
    default_network: str = Network.PER_REPLICA.value
    default_ps_image: str = ""
    default_tensorboard_image: str = DEFAULT_TENSORBOARD_IMAGE
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


class _Setting(NamedTuple):
    name: str  # of the flag, without dashes in front
    parse: Callable[[object], Any]
    metavar: str
    help: str

    @property
    def field(self) -> str:
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        return f"TFOPERATOR_{self.field.upper()}"


_SETTINGS = (
    _Setting("kubeconfig", parse.text, "PATH", "kubeconfig file; else KUBECONFIG, ~/.kube/config, in-cluster"),
    _Setting("context", parse.text, "NAME", "context of the kubeconfig"),
    _Setting("namespace", parse.namespaces, "NS", "look after these namespaces only (default: all)"),
    _Setting("threadiness", parse.integer(1, 256), "N", "jobs synced at a time"),
    _Setting("create-parallelism", parse.integer(1, 256), "N", "creates in flight, of all jobs, and as many deletes"),
    _Setting("metrics-bind-address", parse.address, "ADDR", "/metrics; :8080 for every interface, 0 for none"),
    _Setting("metrics-secure", parse.boolean, "BOOL", "/metrics over HTTPS, for whom the API server lets get it"),
    _Setting("metrics-cert-dir", parse.text, "DIR", "its tls.crt and tls.key (default: one of its own making)"),
    _Setting("health-probe-bind-address", parse.address, "ADDR", "/healthz and /readyz; as above"),
    _Setting("leader-elect", parse.boolean, "BOOL", "run several replicas, of which one leads"),
    _Setting("leader-elect-namespace", parse.text, "NS", "namespace of the lease (default: our own)"),
    _Setting("leader-elect-id", parse.text, "NAME", "name of the lease"),
    _Setting("shard", parse_shard, "N/M", "serve one part of the namespaces of M; auto/M in a StatefulSet's pods"),
    _Setting("leader-elect-lease-duration", parse.duration, "TIME", "when a silent leader may be replaced"),
    _Setting("leader-elect-renew-deadline", parse.duration, "TIME", "when a leader that can't renew gives up"),
    _Setting("leader-elect-retry-period", parse.duration, "TIME", "between two tries to get or renew the lease"),
    _Setting(
        "kube-api-qps",
        parse.number,
        "N",
        "at most so many requests per second to the API server; 0 or less for no limit",
    ),
    _Setting("kube-api-burst", parse.integer(1, 100_000), "N", "requests at once before that limit holds"),
    _Setting("resync-period", parse.duration, "TIME", "shortest interval of the comparison with the live state"),
    _Setting("reconcile-max-period", parse.duration, "TIME", "longest interval of that comparison"),
    _Setting(
        "max-status-delay",
        parse.seconds,
        "TIME",
        "how long a status of nothing but counts may wait for more while the API server is busy; 0 for never",
    ),
    _Setting("gang-scheduler-name", parse.text, "NAME", "volcano, or a scheduler with the coscheduling plugin"),
    _Setting("cluster-domain", parse.text, "DOMAIN", "appended to host names in TF_CONFIG, e.g. cluster.local"),
    _Setting("evaluator-in-cluster", parse.boolean, "BOOL", "list evaluators in TF_CONFIG's cluster"),
    _Setting("default-clean-pod-policy", parse.choice(*CleanPodPolicy), "POLICY", "for jobs that leave theirs unset"),
    _Setting("default-network", parse.choice(*Network), "NETWORK", "of new jobs that leave theirs unset"),
    _Setting("default-ps-image", parse.text, "IMAGE", "image with TensorFlow for parameter servers without a template"),
    _Setting("default-tensorboard-image", parse.text, "IMAGE", "image for TensorBoards that name none of their own"),
    _Setting("unique-names", parse.boolean, "BOOL", "end the names of pods and services in a piece of the job's UID"),
    _Setting("archive-dir", parse.text, "DIR", "keep the logs of containers there when they end (default: don't)"),
    _Setting("archive-max-bytes", parse.size, "SIZE", "of the whole archive; the namespace with most loses first"),
    _Setting("archive-max-log-bytes", parse.size, "SIZE", "of one container's log; its end is kept"),
    _Setting("archive-timeout", parse.duration, "TIME", "how long a pod's logs may take, and its deletion waits"),
    _Setting("stall-stacks", parse.boolean, "BOOL", "keep stacks of stalled jobs there, by a command in their pods"),
    _Setting("restart-delay-base", parse.seconds, "TIME", "from a program's start to its first restart; it doubles"),
    _Setting("restart-delay-cap", parse.seconds, "TIME", "longest delay of a restart"),
    _Setting("shutdown-grace-period", parse.duration, "TIME", "for running syncs to finish after SIGTERM"),
    _Setting("webhook-bind-address", parse.address, "ADDR", "conversion webhook for v1alpha2; :9443, 0 for none"),
    _Setting("webhook-namespace", parse.text, "NS", "namespace of its Service and Secret (default: our own)"),
    _Setting("webhook-service", parse.text, "NAME", "Service by which API servers reach it"),
    _Setting("webhook-secret", parse.text, "NAME", "Secret in which replicas keep its certificate"),
    _Setting("webhook-url", parse.https_url, "URL", "address of the webhook, instead of a Service"),
    _Setting("webhook-cert-dir", parse.text, "DIR", "read tls.crt and tls.key here instead of making them"),
    _Setting("webhook-certificate-validity", parse.duration, "TIME", "life of a certificate; it is renewed after 2/3"),
    _Setting("webhook-shutdown-delay", parse.seconds, "TIME", "after SIGTERM the webhook answers at least so long"),
    _Setting("progress-bind-address", parse.address, "ADDR", "take reports of training programs; :9444, 0 for none"),
    _Setting("progress-default", parse.boolean, "BOOL", "tell jobs where to report that leave spec.progress unset"),
    _Setting("progress-namespace", parse.text, "NS", "namespace of its Service and Secret (default: our own)"),
    _Setting("progress-service", parse.text, "NAME", "Service by which pods reach it"),
    _Setting("progress-secret", parse.text, "NAME", "Secret in which replicas keep its certificate"),
    _Setting("progress-url", parse.https_url, "URL", "its address for pods, instead of a Service"),
    _Setting(
        "progress-writes-per-second", parse.number, "N", "statuses that this replica writes because of reports, at most"
    ),
    _Setting("log-format", parse.choice("text", "json"), "FORMAT", "text or json"),
    _Setting("log-level", parse.choice("debug", "info", "warning", "error"), "LEVEL", "debug, info, warning or error"),
)
_FILE_ONLY = (
    _Setting("accelerators", parse_accelerators, "", "what containers that ask for an accelerator get"),
    _Setting("scheduling", parse_scheduling, "", "priority classes and queues that jobs' PodGroups may name"),
)
_BY_NAME = {setting.name: setting for setting in (*_SETTINGS, *_FILE_ONLY)}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionsError(message)


def parse_options(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Options:
    """The options that the arguments, the environment and the file named by `--config` make.

    Raises OptionsError; `--help` and `--version` print and raise SystemExit.
    """
    given = vars(_parser().parse_args(list(arguments)))
    config = given.pop("config") or environ.get("TFOPERATOR_CONFIG", "")
    chosen: dict[str, Any] = read_config(config) | {"config": config} if config else {}
    if environ.get("CUSTOM_CLUSTER_DOMAIN"):  # the Go operator's variable
        chosen.setdefault("cluster_domain", environ["CUSTOM_CLUSTER_DOMAIN"])
    for setting in _SETTINGS:
        if setting.variable in environ:
            chosen[setting.field] = _parse(setting, environ[setting.variable], setting.variable)
        if given[setting.field] is not None:
            chosen[setting.field] = _parse(setting, given[setting.field], f"--{setting.name}")
    options = Options(**chosen)
    _check(options)
    return options


def read_config(path: str) -> dict[str, Any]:
    """The options in a configuration file, by the names of their fields in `Options`. Raises OptionsError."""
    return {
        _BY_NAME[name].field: _parse(_BY_NAME[name], value, f"--config {path}: {name}")
        for name, value in _read_file(path).items()
    }


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tfoperator operator",
        description="Runs TFJobs: the controller, in a cluster or against a kubeconfig.",
        epilog="Each option can also be a variable (TFOPERATOR_RESYNC_PERIOD=15s) or a key of the YAML file that "
        "--config names (resync-period: 15s). A flag wins over a variable, a variable over the file.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tfoperator {tfoperator.__version__}")
    parser.add_argument("--config", metavar="FILE", help="YAML file with options, accelerators and scheduling")
    defaults = Options()
    for setting in _SETTINGS:
        shape: dict[str, Any] = {}
        if setting.parse is parse.boolean:
            shape = {"nargs": "?", "const": "true"}
        elif setting.parse is parse.namespaces:
            shape = {"nargs": "+", "action": "extend"}
        shown = _shown(setting, getattr(defaults, setting.field))
        parser.add_argument(
            f"--{setting.name}", dest=setting.field, metavar=setting.metavar, help=setting.help + shown, **shape
        )
    return parser


def _shown(setting: _Setting, default: object) -> str:
    if default in ("", (), None):
        return ""
    if setting.metavar == "SIZE" and isinstance(default, int):
        return f" (default {parse.shown_size(default)})"
    if setting.metavar == "TIME" and isinstance(default, float):
        return f" (default {format_duration(default)})"
    if isinstance(default, float):
        return f" (default {default:g})"
    return f" (default {str(default).lower() if isinstance(default, bool) else default})"


def _parse(setting: _Setting, value: object, source: str) -> Any:
    try:
        return setting.parse(value)
    except ValueError as error:
        raise OptionsError(f"{source} {error}") from None


def _read_file(path: str) -> dict[str, object]:
    from tfoperator.yamldata import YamlError, read_value_of_file  # only who has a file pays for PyYAML

    try:
        content = read_value_of_file(path, path)
    except OSError as error:
        raise OptionsError(f"--config {path}: {error.strerror or error}") from None
    except YamlError as error:
        raise OptionsError(f"--config {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise OptionsError(f"--config {path}: must be a mapping of options, is a {type(content).__name__}")
    found: dict[str, object] = {}
    for key, value in content.items():
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", str(key)).replace("_", "-").lower()
        if name not in _BY_NAME:
            close = difflib.get_close_matches(name, _BY_NAME, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise OptionsError(f"--config {path}: {key} is not an option{hint}")
        found[name] = value
    return found


def _check(options: Options) -> None:
    """What options must satisfy together. Raises OptionsError."""
    if options.reconcile_max_period < options.resync_period:
        raise OptionsError(
            f"--reconcile-max-period ({options.reconcile_max_period:g}s) must not be less than "
            f"--resync-period ({options.resync_period:g}s)"
        )
    if options.stall_stacks and not options.archive_dir:
        raise OptionsError("--stall-stacks needs --archive-dir: that is where stacks are kept")
    if not options.default_tensorboard_image:
        raise OptionsError("--default-tensorboard-image must not be empty")
    if options.leader_elect:
        _check_election(options)
    _check_shard(options)
    _check_webhook(options)
    _check_metrics(options)
    _check_progress(options)


def _check_shard(options: Options) -> None:
    if options.shard is None:
        return
    if not options.leader_elect:
        raise OptionsError("--shard needs --leader-elect: leases keep two processes from serving the same namespaces")
    if options.archive_dir:
        raise OptionsError("--shard and --archive-dir exclude each other: an archive has one writer")
    if options.progress_bind_address is not None:
        raise OptionsError(
            "--shard and --progress-bind-address exclude each other: a report may come to any replica, and only one "
            "shard knows its job"
        )


def _check_metrics(options: Options) -> None:
    if options.metrics_cert_dir and not options.metrics_secure:
        raise OptionsError("--metrics-cert-dir is of no use without --metrics-secure")
    address = options.metrics_bind_address
    if options.metrics_secure and address is not None and address == options.health_probe_bind_address and address.port:
        raise OptionsError(
            "--metrics-secure needs a --metrics-bind-address of its own: a kubelet that probes "
            "--health-probe-bind-address has no token"
        )


def _check_webhook(options: Options) -> None:
    given = {"--webhook-url": options.webhook_url, "--webhook-cert-dir": options.webhook_cert_dir}
    if options.webhook_bind_address is None:
        for name, value in given.items():
            if value:
                raise OptionsError(f"{name} is of no use without --webhook-bind-address, for example :9443")
    elif all(given.values()):
        raise OptionsError(
            "--webhook-url is written into the CRD with the authority of our own certificate, so with "
            "--webhook-cert-dir it is of no use: put both into the CRD yourself"
        )


def _check_progress(options: Options) -> None:
    if options.progress_writes_per_second <= 0:
        raise OptionsError("--progress-writes-per-second must be more than 0")
    if options.progress_bind_address is None:
        for name, given in (("--progress-default", options.progress_default), ("--progress-url", options.progress_url)):
            if given:
                raise OptionsError(f"{name} is of no use without --progress-bind-address, for example :9444")


def _check_election(options: Options) -> None:
    lease, renew, retry = (
        options.leader_elect_lease_duration,
        options.leader_elect_renew_deadline,
        options.leader_elect_retry_period,
    )
    if not lease > renew:
        raise OptionsError(
            f"--leader-elect-lease-duration ({lease:g}s) must be more than --leader-elect-renew-deadline ({renew:g}s)"
        )
    if lease < 1:
        raise OptionsError(f"--leader-elect-lease-duration ({lease:g}s) must be 1s or more: Leases know whole seconds")
    if not renew > 1.2 * retry:
        raise OptionsError(
            f"--leader-elect-renew-deadline ({renew:g}s) must be more than 1.2 times "
            f"--leader-elect-retry-period ({retry:g}s)"
        )
    if not options.leader_elect_id:
        raise OptionsError("--leader-elect-id must not be empty")
