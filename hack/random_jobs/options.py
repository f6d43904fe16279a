"""Options of an operator, by chance."""

from __future__ import annotations

import random

from hack.random_jobs.chances import chance
from tfoperator.api.v1.choices import Network
from tfoperator.controller import PlanOptions, gang_scheduler
from tfoperator.controller.pods.naming import NAMINGS
from tfoperator.operator import Options
from tfoperator.operator.options.planning import plan_options


def random_options(rng: random.Random) -> PlanOptions:
    """Return what plans depend on."""
    gang = rng.choice(("", "", "", "volcano", "coscheduler", "kubernetes"))
    return plan_options(
        Options(),
        restart_delay_base=rng.choice((0.0, 1.0, 10.0)),
        restart_delay_cap=rng.choice((30.0, 300.0)),
        node_lost_margin=rng.choice((0.0, 30.0)),
        default_clean_pod_policy=rng.choice(("", "", "All", "Running")),
        first_status_period=rng.choice((0.0, 1.0)),
        counts_period=rng.choice((0.0, 1.0)),
        naming=rng.choice(NAMINGS),
        network=rng.choice(tuple(Network)),
        default_ps_image=rng.choice(("", "example.com/ps:1")),
        exposed_tensorboards=chance(rng, 0.5),
        gang=gang_scheduler(gang),
        restart_rules=chance(rng, 0.7),
    )
