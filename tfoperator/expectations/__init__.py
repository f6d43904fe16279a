"""What each replica set of a job still expects to see created or deleted. Knows nothing of Kubernetes."""

from tfoperator.expectations.expectations import DEFAULT_TTL, ExpectationKey, Expectations

__all__ = ["DEFAULT_TTL", "ExpectationKey", "Expectations"]
