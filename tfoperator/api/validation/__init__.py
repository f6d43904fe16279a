"""Finds the problems of a TFJob. Pure: a job or a manifest in, problems with the paths of their fields out.

`validate` judges a typed job (`job`, with a module each for the larger parts of the spec); `validate_manifest` judges a
handwritten manifest, and finds misspelt and misplaced members, too (`manifest`). The CRD has the same rules for API
servers (`tfoperator.api.schema`), with the limits that are exported here.
"""

from tfoperator.api.problems import errors
from tfoperator.api.validation.job import STOCK_PARAMETER_SERVER, long_names, validate
from tfoperator.api.validation.limits import MANAGED_BY_OPERATOR, MAX_BEHIND, MAX_REPLICAS, MAX_SHOWN_METRICS
from tfoperator.api.validation.manifest import validate_manifest
from tfoperator.api.validation.warnings import validate_multikueue

__all__ = [
    "MANAGED_BY_OPERATOR",
    "MAX_BEHIND",
    "MAX_REPLICAS",
    "MAX_SHOWN_METRICS",
    "STOCK_PARAMETER_SERVER",
    "errors",
    "long_names",
    "validate",
    "validate_manifest",
    "validate_multikueue",
]
