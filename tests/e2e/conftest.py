"""Fixtures for the operator on a real API server. The test plays the kubelet, so no pod really runs."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hack.controlplane import ControlPlane, control_plane
from tests.support.audit import audit_policy
from tests.support.cli import Cli
from tests.support.cluster import Cluster
from tests.support.docker_engine import docker_engine
from tests.support.operated import Operated
from tests.support.operator_process import OperatorProcess
from tfoperator.api.schema.crd import crd
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config

__all__ = ["docker_engine"]

OPERATOR_USER = "system:serviceaccount:tfoperator-system:tfoperator"
OPERATOR_GROUPS = "system:serviceaccounts,system:serviceaccounts:tfoperator-system,system:authenticated"

UNFINALIZING_USER = "unfinalizing"
"""A user without any right, until a test gives it some."""

SQUEEZED_USER = "squeezed"
"""A user without any right, to be given some in a namespace, and little room by the API server's priority levels."""

COUNTED_USER = "counted"
"""A user (and the operator's own, beside it) whose every request the API server writes to its audit log."""

AUDIT_POLICY = audit_policy(COUNTED_USER, OPERATOR_USER)


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    users = {OPERATOR_USER: OPERATOR_GROUPS, COUNTED_USER: "system:masters"}
    users |= dict.fromkeys((UNFINALIZING_USER, SQUEEZED_USER), "system:authenticated")
    # Some distributions enable it; it asks for one right more.
    flags = ("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",)
    with control_plane(users=users, audit_policy=AUDIT_POLICY, api_server_flags=flags) as running:
        yield running


def admin_of(plane: ControlPlane) -> Iterator[Client]:
    with Client(load_config(str(plane.kubeconfig))) as client:
        Cluster(client).install_crd(crd())
        yield client


admin = pytest.fixture(scope="session")(admin_of)


@pytest.fixture
def cluster(admin: Client) -> Cluster:
    created = Cluster(admin)
    created.create_namespace()
    return created


@pytest.fixture
def start_operator(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., OperatorProcess]]:
    """Starts operators that look after the test's namespace only; whatever still runs is killed afterwards."""
    numbers = itertools.count()
    with ExitStack() as stack:

        def start(*flags: str, kubeconfig: Path | None = None) -> OperatorProcess:
            name, namespace = f"operator-{next(numbers)}", f"--namespace={cluster.namespace}"
            operator = OperatorProcess(kubeconfig or plane.kubeconfig, tmp_path, name, namespace, *flags)
            return stack.enter_context(operator).wait_ready()

        yield start


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    """The flags of the operator of `operated`; a module may override them."""
    return ("--restart-delay-base=100ms",)


@pytest.fixture(scope="module")
def operated(
    plane: ControlPlane, admin: Client, operator_flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operated]:
    """A namespace and an operator for all tests of a module; each brings a job of its own."""
    cluster = Cluster(admin)
    cluster.create_namespace()
    folder = tmp_path_factory.mktemp(cluster.namespace)
    flags = (f"--namespace={cluster.namespace}", *operator_flags)
    with OperatorProcess(plane.kubeconfig, folder, "operator", *flags) as operator:
        yield Operated(cluster, operator.wait_ready())


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """The command line, with a control plane of its own."""
    cli = Cli(tmp_path, XDG_STATE_HOME=str(tmp_path / "state"))
    yield cli
    cli.run("local", "down", "--now")


@pytest.fixture
def local_up(cli: Cli) -> None:
    """Its control plane runs, and is known as `eval "$(tfoperator local up)"` makes it known."""
    cli.environment |= cli.local_up()
