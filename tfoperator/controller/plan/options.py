"""What an administrator chooses for all jobs, as far as plans depend on it."""

from __future__ import annotations

from tfoperator.controller.pods import PodOptions


class PlanOptions(PodOptions, frozen=True, kw_only=True):
    """The options of pods, and when things happen. Times are seconds.

    A replica's n-th restart comes `restart_delay_base * 2**(n-1)` after its program began, at most `restart_delay_cap`,
    and at once if that is over, or if the base is 0. A pod on a lost node is deleted by force `node_lost_margin` after
    the moment its graceful deletion should have been over. `default_clean_pod_policy` holds for jobs that leave theirs
    unset; empty: what still runs when they have ended is stopped (see `cleanup`). For `first_status_period` a job's
    first status waits for a second one to be written with it; a status with nothing new but counts waits for more of
    them, up to `max_status_delay` if the API server is as busy as it gets (see `postponing`).
    """

    restart_delay_base: float = 1.0
    restart_delay_cap: float = 300.0
    node_lost_margin: float = 30.0
    default_clean_pod_policy: str = ""
    first_status_period: float = 0.0
    max_status_delay: float = 0.0
