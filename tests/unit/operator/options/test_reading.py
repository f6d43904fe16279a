from pathlib import Path

import pytest

from tfoperator.operator import Options
from tfoperator.operator.options.reading import parse_options
from tfoperator.operator.options.settings import OptionsError
from tfoperator.servers.http.limits import Address


def parse(*arguments: str, **environ: str) -> Options:
    return parse_options(arguments, environ)


def test_without_anything_the_defaults_hold_and_nothing_listens_beyond_loopback() -> None:
    options = parse()
    assert options == Options()
    assert options.metrics_bind_address == Address("127.0.0.1", 8080)
    assert options.health_probe_bind_address == Address("127.0.0.1", 8081)
    assert options.kube_api_qps == 0, "the API server alone limits requests"
    assert [parse(f"--kube-api-qps={rate}").kube_api_qps for rate in ("0", "-1", "2.5")] == [0, -1, 2.5]


def test_the_file_does_not_name_a_file_and_objects_are_options_of_the_file_only(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("config: other.yaml\n")
    with pytest.raises(OptionsError, match="config is not an option"):
        parse(f"--config={file}")
    for name in ("accelerators", "scheduling"):
        with pytest.raises(OptionsError, match=f"--{name}"):
            parse(f"--{name}={{}}")
        assert parse(**{f"TFOPERATOR_{name.upper()}": "nonsense"}) == Options()


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("threadiness: 1\ncreate-parallelism: 1\nresyncPeriod: 20s\nleader_elect: true\n")
    variables = {"TFOPERATOR_THREADINESS": "2", "TFOPERATOR_CREATE_PARALLELISM": "2"}
    options = parse("--threadiness=3", f"--config={file}", **variables)
    assert (options.threadiness, options.create_parallelism, options.resync_period) == (3, 2, 20.0)
    assert options.leader_elect
    file.write_text("")
    assert parse(TFOPERATOR_CONFIG=str(file)) == Options(config=str(file))


def test_a_list_can_be_repeated_or_joined_and_a_switch_given_with_and_without_value() -> None:
    for arguments in (["--namespace", "a", "b"], ["--namespace=a", "--namespace=b"], ["--namespace=a,b"]):
        assert parse(*arguments).namespace == ("a", "b")
    for switch in ("", "=true", "=false"):
        assert parse(f"--leader-elect{switch}").leader_elect is (switch != "=false")


def test_the_go_operators_variable_is_honoured_and_a_mistake_in_one_names_it() -> None:
    assert parse(CUSTOM_CLUSTER_DOMAIN="cluster.local").cluster_domain == "cluster.local"
    assert parse("--cluster-domain=x", CUSTOM_CLUSTER_DOMAIN="cluster.local").cluster_domain == "x"
    with pytest.raises(OptionsError, match="TFOPERATOR_LOG_LEVEL must be one of"):
        parse(TFOPERATOR_LOG_LEVEL="loud")


LEASE = {"lease-duration": 0.9, "renew-deadline": 0.5, "retry-period": 0.1}
TOO_SHORT = [f"--leader-elect-{what}={seconds}" for what, seconds in LEASE.items()]
ONE_PORT = ["--metrics-bind-address=:8081", "--health-probe-bind-address=:8081"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threadiness=0"], "--threadiness must be from 1"),
        (["--resync-period=soon"], "--resync-period must be a duration"),
        (["--kube-api-qps=nan"], "--kube-api-qps must be a number"),
        (["--log-format=xml"], "--log-format must be one of text, json"),
        (["--default-clean-pod-policy=none"], "--default-clean-pod-policy must be one of All, Running, None"),
        (["--default-tensorboard-image="], "--default-tensorboard-image must not be empty"),
        (["--progress-writes-per-second=0"], "--progress-writes-per-second must be more than 0"),
        (["--default-network=perjob"], "--default-network must be one of PerReplica, PerJob"),
        (["--resync-period=10m"], "--reconcile-max-period"),
        (["--leader-elect", "--leader-elect-renew-deadline=20s"], "--leader-elect-lease-duration"),
        (["--leader-elect", "--leader-elect-retry-period=9s"], "1.2 times"),
        (["--leader-elect", "--leader-elect-id="], "--leader-elect-id"),
        (["--leader-elect", *TOO_SHORT], "--leader-elect-lease-duration (0.9s) must be 1s or more"),
        (["--webhook-certificate-validity=99999999999h"], "--webhook-certificate-validity must be at most"),
        (["--webhook-shutdown-delay=1e300"], "--webhook-shutdown-delay must be at most"),
        (["--webhook-url=https://x/convert"], "--webhook-url has no effect without --webhook-bind-address"),
        (["--webhook-cert-dir=/x"], "--webhook-cert-dir has no effect without"),
        (["--webhook-bind-address=:1", "--webhook-url=http://x"], "--webhook-url must be a URL such as"),
        (["--webhook-bind-address=:1", "--webhook-url=https://x", "--webhook-cert-dir=/x"], "into the CRD yourself"),
        (["--metrics-cert-dir=/x"], "--metrics-cert-dir has no effect without --metrics-secure"),
        (["--metrics-secure", *ONE_PORT], "--metrics-secure needs its own --metrics-bind-address, because"),
        (["--frobnicate"], "--frobnicate"),
        (["--thread=3"], "--thread"),
    ],
)
def test_a_mistake_is_reported_by_the_name_of_its_option(arguments: list[str], message: str) -> None:
    with pytest.raises(OptionsError) as caught:
        parse(*arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("resync-perod: 3s", "did you mean resync-period"),
        ("resync-period: soon", "resync-period must be a duration"),
        ("[1, 2]", "must be a mapping"),
        ("a: [", ":2:1: is not valid YAML"),
        ("a: " + "[" * 1200, "has more than 100 levels of nesting"),
    ],
)
def test_a_mistake_in_the_file_names_file_and_key(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content)
    with pytest.raises(OptionsError) as caught:
        parse(f"--config={file}")
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
