"""Checks of options that depend on each other. Pure."""

from __future__ import annotations

from tfoperator.operator.options.settings import Options, OptionsError


def check_together(options: Options) -> None:
    """Raise OptionsError if options exclude each other, or if an option needs another option that isn't set."""
    if options.reconcile_max_period < options.resync_period:
        raise OptionsError(
            f"--reconcile-max-period ({options.reconcile_max_period:g}s) must not be less than "
            f"--resync-period ({options.resync_period:g}s)"
        )
    if options.stall_stacks and not options.archive_dir:
        raise OptionsError("--stall-stacks needs --archive-dir, where the stacks are kept")
    if options.leader_elect:
        _check_election(options)
    _check_webhook(options)
    _check_metrics(options)
    _check_progress(options)


def _check_metrics(options: Options) -> None:
    if options.metrics_cert_dir and not options.metrics_secure:
        raise OptionsError("--metrics-cert-dir has no effect without --metrics-secure")
    address = options.metrics_bind_address
    if options.metrics_secure and address is not None and address == options.health_probe_bind_address and address.port:
        raise OptionsError(
            "--metrics-secure needs its own --metrics-bind-address, because a kubelet that probes "
            "--health-probe-bind-address has no token"
        )


def _check_webhook(options: Options) -> None:
    given = {"--webhook-url": options.webhook_url, "--webhook-cert-dir": options.webhook_cert_dir}
    if options.webhook_bind_address is None:
        for name, value in given.items():
            if value:
                raise OptionsError(f"{name} has no effect without --webhook-bind-address, for example :9443")
    elif all(given.values()):
        raise OptionsError(
            "--webhook-url can't be used with --webhook-cert-dir: the operator writes the URL into the CRD only "
            "together with the CA of a certificate that the operator creates. Write your URL and your CA into the CRD "
            "yourself"
        )


def _check_progress(options: Options) -> None:
    if options.progress_bind_address is None:
        for name, given in (("--progress-default", options.progress_default), ("--progress-url", options.progress_url)):
            if given:
                raise OptionsError(f"{name} has no effect without --progress-bind-address, for example :9444")


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
        raise OptionsError(
            f"--leader-elect-lease-duration ({lease:g}s) must be 1s or more, because Leases have whole seconds"
        )
    if not renew > 1.2 * retry:
        raise OptionsError(
            f"--leader-elect-renew-deadline ({renew:g}s) must be more than 1.2 times "
            f"--leader-elect-retry-period ({retry:g}s)"
        )
    if not options.leader_elect_id:
        raise OptionsError("--leader-elect-id must not be empty")
