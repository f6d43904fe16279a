"""Records creations and deletions that a job's replica sets have requested, but the cache does not show yet.

The package does not depend on Kubernetes.
"""

from tfoperator.expectations.expectations import ExpectationKey, Expectations, expectation_key

__all__ = ["ExpectationKey", "Expectations", "expectation_key"]
