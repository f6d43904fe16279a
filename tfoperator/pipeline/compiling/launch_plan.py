"""A pipeline in the form that an orchestrator (Argo or Airflow) needs.

The form has the steps and their order, the parameters, and the pods that launch steps.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from tfoperator.base.files import local_path
from tfoperator.base.urls import shown_url
from tfoperator.kube.views.pod_spec import verbatim
from tfoperator.launcher import ComponentError
from tfoperator.launcher.core.component import Json
from tfoperator.launcher.core.metadata import fingerprint
from tfoperator.object_store import is_object_url
from tfoperator.pipeline.graph import Graph, check_fixed
from tfoperator.pipeline.store.postgresql import database_url

COMMAND = ("tfoperator", "pipeline")
LABEL = "tfoperator.launcher/pipeline"
"""The label that contains the pipeline's name. Argo's workflows and Airflow's pods have this label."""
GRACE_SECONDS = 120
"""The `terminationGracePeriodSeconds` of a launcher's pod: the seconds that the launcher may take to stop its step's
container. The container's own grace period is a part of this time. examples/pipeline/runner.yaml has the same value.
"""
USER = 65532
"""The user ID of launchers. The runner in examples/pipeline/runner.yaml has the same user ID, so that launchers and
this runner can use the same volume.
"""

_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TEMPLATE_SIGNS = ("{{", "}}", "{%", "%}", "{#", "#}")
"""Text that has a meaning for Argo or Airflow. Argo and Airflow have no common escape sequence for such text."""


class Claim(msgspec.Struct, frozen=True):
    """A persistent volume claim, and the path at which launchers mount it."""

    name: str
    path: str


class LauncherPods(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the pods that launch steps.

    - `file` is the path of the pipeline's file in the pods' image.
    - `home` is the directory or the database with the metadata store, as in the option `--home`.
    - `secrets` are the names of Secrets. Each key of these Secrets becomes an environment variable of the pods, such as
      PGPASSWORD.
    - `parallel` is the maximum number of pods at the same time, and `retries` the maximum number of retries of a step.
    - `options` are passed to `tfoperator pipeline step`.

    The constructor raises ComponentError if a value is invalid. The message names the option of `tfoperator pipeline
    compile` that sets the value, such as `--image`.
    """

    image: str
    file: str
    home: str = "/data/records"
    claims: tuple[Claim, ...] = (Claim("pipeline", "/data"),)
    secrets: tuple[str, ...] = ()
    service_account: str = "pipeline-runner"
    parallel: int = 4
    retries: int = 5
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        texts = {"--image": self.image, "--pipeline-file": self.file, "--home": self.home}
        texts |= {option.partition("=")[0]: option for option in self.options}
        texts |= {"--claim": "".join([claim.path for claim in self.claims])}
        for option, text in texts.items():
            if sign := next((candidate for candidate in _TEMPLATE_SIGNS if candidate in text), ""):
                raise ComponentError(f"{option}: {text!r} contains {sign!r}, which Argo and Airflow would replace")
            if not text.isprintable():
                raise ComponentError(f"{option}: {text!r} must not contain a control character")
        if not self.image.strip():
            raise ComponentError("--image: the image of the launchers' pods is missing")
        names = [("--claim", claim.name) for claim in self.claims] + [("--secret", name) for name in self.secrets]
        for option, name in [("--service-account", self.service_account), *names]:
            if not _OBJECT_NAME.fullmatch(name):
                raise ComponentError(
                    f"{option}: {name!r} is not a valid name of an object: use at most 63 lower-case letters, digits "
                    "and '-', with a letter or digit at the beginning and at the end"
                )
        for option, path in (("--pipeline-file", self.file), *[("--claim", claim.path) for claim in self.claims]):
            if not path.startswith("/"):
                raise ComponentError(f"{option}: {path!r} must be an absolute path in the pod")

    def pod_spec(self) -> Json:
        """Return the spec of the pods: account, security, volumes, and the launcher's container without its command."""
        # The root file system of the pod is read-only. So /tmp gets an emptyDir, unless a claim is mounted there.
        tmp = {"/tmp"} - {str(PurePosixPath(claim.path)) for claim in self.claims}
        mounts = [{"name": f"data-{number}", "mountPath": claim.path} for number, claim in enumerate(self.claims)]
        volumes: list[Json] = [
            {"name": f"data-{number}", "persistentVolumeClaim": {"claimName": claim.name}}
            for number, claim in enumerate(self.claims)
        ]
        container = {
            "image": self.image,
            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            **({"envFrom": [{"secretRef": {"name": name}} for name in self.secrets]} if self.secrets else {}),
            "volumeMounts": mounts + [{"name": "tmp", "mountPath": path} for path in tmp],
        }
        seccomp = {"type": "RuntimeDefault"}
        return {
            "serviceAccountName": self.service_account,
            "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER, "seccompProfile": seccomp},
            "volumes": volumes + [{"name": "tmp", "emptyDir": {}} for _ in tmp],
            "containers": [container],
        }


class LaunchPlan(msgspec.Struct, frozen=True):
    """A pipeline in the form that an orchestrator (Argo or Airflow) needs.

    `steps` maps each step to its predecessors, in an order in which the steps can run. `parameters` maps the name of
    each parameter to its default, a JSON value; None means that the parameter is optional and has no value. `others`
    are the parameters with a default that can't be written as JSON, such as a tuple or NaN. An orchestrator can't pass
    `others`, so these parameters keep the default in the pipeline's file.
    """

    name: str
    steps: Mapping[str, tuple[str, ...]]
    parameters: Mapping[str, Any]
    others: tuple[str, ...]
    pods: LauncherPods

    def words(self, step: str, run_id: str, orchestrator: str) -> list[str]:
        """Return the arguments of `tfoperator pipeline` that launch a step, without the pipeline's parameters.

        Text such as `$(NAME)` in the arguments is escaped, so that the kubelet does not expand it. `step` and
        `run_id` are placeholders, such as `{{workflow.uid}}`, which the orchestrator replaces.
        """
        own = [self.pods.file, step, f"--run-id={run_id}", f"--orchestrator={orchestrator}", f"--home={self.pods.home}"]
        return ["step", *map(verbatim, [*own, f"--steps={steps_digest(self.steps)}", *self.pods.options])]

    def last_words(self, run_id: str) -> list[str]:
        """Return the arguments of `tfoperator pipeline` for the command that runs after the last step (`finish`).

        The command records the outcome of the run, and stops the containers that remain. The orchestrator replaces the
        placeholder `run_id`.
        """
        return ["finish", run_id, verbatim(f"--home={self.pods.home}")]


def launch_plan(graph: Graph, parameters: Mapping[str, Any], left_out: Iterable[str], pods: LauncherPods) -> LaunchPlan:
    """Return the plan for an orchestrator.

    `left_out` names the optional parameters without a value. Raises ComponentError if Argo or Airflow can't use the
    name of a parameter, if they can't run the graph (`check_fixed`, for example because of a condition or a loop), or
    if `pipeline_root` or the folder of logs is a relative path. In a pod, such a path is below the container's working
    directory, where no volume is mounted.
    """
    check_fixed(graph)
    if not (is_object_url(folder := logs_folder(pods.home)) or folder.startswith("/")):
        raise ComponentError(
            f"--home {shown_url(pods.home)}: must end in ?folder=PLACE for the logs; PLACE is an absolute path in "
            "the launchers' pods, or the URL of an object store"
        )
    root = local_path(graph.root)
    if root is not None and not root.is_absolute():
        raise ComponentError(
            f"pipeline_root {graph.root} is a relative path, which is on no volume of a pod: use an absolute path on "
            "a volume that the launchers' pods and the steps' pods mount"
        )
    values: dict[str, Any] = {}
    others: list[str] = []
    for name, given in [*parameters.items(), *[(name, None) for name in left_out]]:
        value = str(given) if isinstance(given, str) else given
        try:
            again = msgspec.json.decode(msgspec.json.encode(value))
        except (TypeError, ValueError):
            again = None
        if type(again) is not type(value) or again != value:  # for example a tuple, which JSON decodes as a list
            others.append(name)
            continue
        if not re.fullmatch(r"[A-Za-z0-9_]+", name):
            raise ComponentError(
                f"parameter {name!r}: must have a name of ASCII letters, digits and '_' for Argo and Airflow"
            )
        values[name] = value
    steps = {step.name: tuple(sorted(step.after)) for step in graph.steps}
    return LaunchPlan(graph.name, steps, values, tuple(others), pods)


def steps_digest(steps: Mapping[str, Iterable[str]]) -> str:
    """Return a hash of the steps and their predecessors."""
    return fingerprint({name: sorted(after) for name, after in steps.items()})[:16]


def logs_folder(home: str) -> str:
    """Return the place of the logs: `home` if it is a directory, or LOGS in `postgresql://HOST/DB?folder=LOGS`.

    A relative directory `home` is below the root directory of the pod. Raises ComponentError for an invalid home.
    """
    url = database_url(home)
    return str(PurePosixPath("/", home)) if url is None else url[1]


def outside_of_claims(root: str, claims: Iterable[Claim]) -> bool:
    """Return whether `root`, the place of the outputs, is a path in the launcher's pod but on none of the claims."""
    path = local_path(root)
    return path is not None and not any(PurePosixPath(path).is_relative_to(claim.path) for claim in claims)


def object_names(names: Iterable[str], longest: int) -> dict[str, str]:
    """Return a valid name for each name: letters, digits and '-', at most `longest` characters, a letter at the start.

    The new names are unique, and the same input gives the same names. If two new names would be equal, each of them
    ends in 16 characters of the SHA-256 hash of the original name.
    """
    wanted = {name: _plain(name)[:longest].rstrip("-") for name in names}
    count = Counter(wanted.values())
    unique = {name: plain if count[plain] == 1 else _hashed(name, plain, longest) for name, plain in wanted.items()}
    if len(set(unique.values())) < len(unique):  # a name equals another name with its hash
        unique = {name: _hashed(name, plain, longest) for name, plain in wanted.items()}
    return unique


def object_name(name: str, longest: int) -> str:
    """Return a valid name for a Kubernetes object: lowercase letters, digits and '-', `longest` characters at most."""
    return _plain(name).lower()[:longest].rstrip("-")


def _plain(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
    return plain if plain[:1].isalpha() else f"step-{plain}"


def _hashed(name: str, plain: str, longest: int) -> str:
    piece = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{plain[: longest - len(piece) - 1]}-{piece}"
