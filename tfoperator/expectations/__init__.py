"""Records the creations and deletions that a controller has requested, and that its cache does not show yet.

The package does not depend on Kubernetes.
"""

from tfoperator.expectations.expectations import ExpectationKey, Expectations, expectation_key

__all__ = ["ExpectationKey", "Expectations", "expectation_key"]
