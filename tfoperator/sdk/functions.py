"""Makes a TFJob from a Python function. The function's source becomes a script that every replica runs.

Only source text is sent, and no pickled objects: a pickle would need the same Python and the same libraries on this
machine and in the image. So the function must be self-contained: it must not use names from outside of the function.
This module checks this before the job is created, because a function that is not self-contained would fail in the
cluster.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import shlex
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, Literal

import msgspec

from tfoperator.api.loading import ManifestError, load_manifests, parse_manifests
from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.api.validation.pod_fields import NO_CUDA, is_cpu_image
from tfoperator.kube.views.pod_spec import GPU, verbatim
from tfoperator.sdk.errors import FunctionSourceError

DEFAULT_BASE_IMAGE = "tensorflow/tensorflow:2.18.0"
"""The default image in which a function runs."""

_RESOURCES = {"gpu": GPU, "storage": "ephemeral-storage"}
"""Short names for resources, the same as in TrainingClient."""

# The script is written to a file, because tracebacks and child processes need a file. The shell script uses backquotes,
# because a kubelet replaces $(NAME) in a command by the value of the variable NAME.
_START_SCRIPT = 'folder=`mktemp -d`\nprintf "%s" "$1" > "$folder/{name}.py"\nexec python3 -u "$folder/{name}.py"'


class FunctionJob(msgspec.Struct, frozen=True):
    """A job in which all replicas call `train_func`. Its fields are parameters of `TFJobClient.create_job`."""

    name: str
    train_func: Callable[..., Any]
    base_image: str = DEFAULT_BASE_IMAGE
    parameters: Mapping[str, Any] | None = None
    num_workers: int | None = None
    num_ps_replicas: int | None = None
    num_chief_replicas: int | None = None
    resources_per_worker: Mapping[str, Any] | None = None
    packages_to_install: Sequence[str] | None = None
    pip_index_url: str | None = None
    env_vars: Mapping[str, str] | Sequence[Mapping[str, Any]] | None = None

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of the TFJob. Raises FunctionSourceError."""
        # Without this annotation, Istio adds a proxy container, which never ends, so the pod never ends either.
        template = {
            "metadata": {"annotations": {"sidecar.istio.io/inject": "false"}},
            "spec": {"containers": [self._container()]},
        }
        counts = {
            ReplicaType.CHIEF: self.num_chief_replicas,
            ReplicaType.WORKER: self._workers,
            ReplicaType.PS: self.num_ps_replicas,
        }
        specs = {str(kind): {"replicas": count, "template": template} for kind, count in counts.items() if count}
        return {
            "apiVersion": TFJOBS.api_version,
            "kind": TFJOBS.kind,
            "metadata": {"name": self.name},
            "spec": {"progress": {}, "tfReplicaSpecs": specs},
        }

    @property
    def _workers(self) -> int | None:
        return 1 if self.num_workers is None and not self.num_chief_replicas else self.num_workers

    def _container(self) -> dict[str, Any]:
        script = function_script(self.train_func, self.parameters)
        start = self._installation() + _START_SCRIPT.format(name=self.train_func.__name__)
        container: dict[str, Any] = {
            "name": DEFAULT_CONTAINER_NAME,
            "image": self.base_image,
            "command": ["sh", "-ec", verbatim(start), "sh"],
            "args": [verbatim(script)],
        }
        if self.env_vars:
            container["env"] = _env(self.env_vars)
        if self.resources_per_worker:
            quantities = {_RESOURCES.get(key.lower(), key): value for key, value in self.resources_per_worker.items()}
            container["resources"] = {"requests": quantities, "limits": quantities}
            if GPU in quantities and is_cpu_image(self.base_image):
                # `stacklevel` makes the warning name the line that calls `create_job`.
                warnings.warn(f"base_image: {self.base_image} {NO_CUDA}", stacklevel=4)
        return container

    def _installation(self) -> str:
        """Return the line of the start script that installs the packages. Return "" if there are no packages."""
        if not self.packages_to_install:
            return ""
        index = f" --index-url {shlex.quote(self.pip_index_url)}" if self.pip_index_url else ""
        packages = " ".join(map(shlex.quote, self.packages_to_install))
        return f"python3 -m pip install --disable-pip-version-check --quiet{index} {packages}\n"


def function_script(train_func: Callable[..., Any], parameters: Mapping[str, Any] | None = None) -> str:
    """Return the text of a program that calls the function. `parameters`, if given, are the function's only argument.

    Raises FunctionSourceError if the source is missing, or if the function is not self-contained.
    """
    if not callable(train_func):
        raise FunctionSourceError(
            f"train_func is {textwrap.shorten(repr(train_func), 60)}, which is the result of a function: pass the "
            "function itself, without calling it (train_func=train, not train_func=train(...)), and its argument in "
            "`parameters`"
        )
    name = getattr(train_func, "__name__", repr(train_func))
    train_func = inspect.unwrap(train_func)
    if not inspect.isfunction(train_func) or name == "<lambda>":
        raise FunctionSourceError(
            f"{name} must be a function that is written with def, because the job contains the function's source code"
        )
    if inspect.iscoroutinefunction(train_func) or inspect.isgeneratorfunction(train_func):
        raise FunctionSourceError(f"{name}() must be a plain function, not a coroutine or a generator")
    source, node = _source(train_func)
    _check_stands_alone(train_func, node)
    argument = "" if parameters is None else _literal(name, parameters)
    try:
        inspect.signature(train_func).bind(*([] if parameters is None else [parameters]))
    except TypeError as error:
        given = "nothing" if parameters is None else "one argument, the dictionary `parameters`"
        raise FunctionSourceError(f"{name}() can't be called with {given}: {error}") from None
    # Annotations may name types that only the caller's module defines; so they are not evaluated.
    return f"from __future__ import annotations\n\n{source}\n\n{name}({argument})\n"


def _source(function: Callable[..., Any]) -> tuple[str, ast.FunctionDef]:
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        raise FunctionSourceError(
            f"the source of {function.__name__}() is not available, because the function does not come from a file "
            "or a notebook: write it into a file, or submit a job with an image that contains it"
        ) from None
    # An inner function is indented. Its lines stay unchanged, since they may be part of a string.
    header = "if True:\n" if text[:1].isspace() else ""
    tree = ast.parse(header + text)
    node = next(statement for statement in ast.walk(tree) if isinstance(statement, ast.FunctionDef))
    lines = (header + text).splitlines()
    # Decorators are left out: their names do not exist in the script.
    return header + "\n".join(lines[node.lineno - 1 : node.end_lineno]), node


def _check_stands_alone(function: Callable[..., Any], node: ast.FunctionDef) -> None:
    code, defined = function.__code__, function.__globals__
    loaded = set(_globals(code, "LOAD")) | {
        part.id
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults))
        for part in ast.walk(default)
        if isinstance(part, ast.Name)
    }
    own = {function.__name__, *_globals(code, "STORE")}
    outside = set(code.co_freevars) - own
    outside |= {
        name for name in loaded - own if name in defined and not hasattr(builtins, name) and not name.startswith("__")
    }
    if outside:
        names = ", ".join(sorted(outside))
        raise FunctionSourceError(
            f"{function.__name__}() uses {names} from outside of the function, which do not exist where it runs: "
            "import or define them inside the function, or pass them in `parameters`"
        )


def _globals(code: CodeType, verb: Literal["LOAD", "STORE"]) -> Iterator[str]:
    """Return the global names that a function, or a function inside it, reads (LOAD) or sets (STORE)."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in (f"{verb}_GLOBAL", f"{verb}_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant, verb)


def _literal(name: str, parameters: Mapping[str, Any]) -> str:
    plain = dict(parameters)
    text = repr(plain)
    try:
        same = ast.literal_eval(text) == plain
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise FunctionSourceError(
            f"the parameters of {name}() must be plain values (strings, numbers, booleans, None, lists, dictionaries), "
            f"but are {textwrap.shorten(text, 100)}"
        )
    return text


def _env(env_vars: Mapping[str, str] | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(env_vars, Mapping):
        return [{"name": name, "value": str(value)} for name, value in env_vars.items()]
    return [dict(entry) for entry in env_vars]


JobSource = Mapping[str, Any] | TFJob | str | Path
"""The forms in which a caller can pass a manifest: a mapping, a TFJob, the path of a YAML or JSON file, or YAML or JSON
text with more than one line.
"""


def job_manifest(job: JobSource, name: str | None = None) -> dict[str, Any]:
    """Return the manifest of a job as a new dict, which the caller may change. `name` overrides the name in `job`.

    Raises ManifestError if a file can't be read, or if the file or text does not contain exactly one object. Raises
    ValueError if the object has another `kind` than TFJob, or if the job has no name.
    """
    match job:
        case TFJob():
            manifest = _from_view(job)
        case Mapping():
            manifest = dict(job)
        case _:
            manifest = _from_text(job)
    manifest = {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind, **manifest}
    if manifest["kind"] != TFJOBS.kind:
        raise ValueError(f"a TFJob is needed, but this is a {manifest['kind']}")
    metadata = {key: value for key, value in (manifest.get("metadata") or {}).items() if key != "resourceVersion"}
    if name:
        metadata["name"] = name
    if not metadata.get("name") and not metadata.get("generateName"):
        raise ValueError("the job needs a name: set metadata.name, or the argument `name`")
    return {**manifest, "metadata": metadata}


def _from_view(job: TFJob) -> dict[str, Any]:
    # Only the fields that a user writes. The API server sets the other fields, for example `uid`.
    meta = job.metadata
    metadata = {
        "name": meta.name,
        "generateName": meta.generate_name,
        "namespace": meta.namespace,
        "labels": meta.labels,
        "annotations": meta.annotations,
    }
    spec = msgspec.json.decode(msgspec.json.encode(job.spec))
    return {"metadata": {key: value for key, value in metadata.items() if value}, "spec": spec}


def _from_text(job: str | Path) -> dict[str, Any]:
    manifests = parse_manifests(job) if isinstance(job, str) and "\n" in job else load_manifests(job)
    if len(manifests) != 1:
        raise ManifestError(
            manifests[0].source, f"contains {len(manifests)} objects, but must contain exactly one TFJob"
        )
    return manifests[0].obj
