"""docs/reference/endpoints-and-metrics.md lists every metric of /metrics, and no other, with labels that exist."""

import fnmatch
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from tfoperator.operator.metrics.operator_metrics import OperatorMetrics
from tfoperator.servers.webhook.metrics import WebhookMetrics

PAGE = (Path(__file__).resolve().parents[4] / "docs/reference/endpoints-and-metrics.md").read_text()


def exported() -> dict[str, tuple[str, ...]]:
    """Return the labels of each metric, with the webhook's metrics."""
    metrics = OperatorMetrics()
    WebhookMetrics(metrics.registry)
    metrics.crd_lacks(0)
    labels = {}
    for family in metrics.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        collector = metrics.registry._names_to_collectors.get(name)
        labels[name] = tuple(getattr(collector, "_labelnames", ()))
    return labels


def listed() -> Iterator[tuple[str, str]]:
    """Patterns of names from the table, each with a label if it names one: `a_{b,c}_total` are two."""
    table = PAGE.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
        for text in re.findall(r"`([^`]+)`", cell):
            label = re.search(r"\{([a-z_]+)(?:=[^}]*)?\}$", text)
            name = text[: label.start()] if label else text
            parts = re.split(r"\{([^}]*)\}", name)
            choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
            yield from (("".join(choice), label[1] if label else "") for choice in itertools.product(*choices))


def test_every_metric_is_told_of() -> None:
    patterns = [pattern for pattern, _ in listed()]
    missing = [name for name in exported() if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    assert missing == []


def test_what_is_told_of_exists_with_its_label() -> None:
    labels = exported()
    for pattern, label in listed():
        matching = [name for name in labels if fnmatch.fnmatch(name, pattern)]
        assert matching, pattern
        assert not label or any(label in labels[name] for name in matching), (pattern, label)
