"""Creations and deletions that a job's replica sets still expect to see. It does not depend on Kubernetes."""

from tfoperator.expectations.expectations import ExpectationKey, Expectations, expectation_key

__all__ = ["ExpectationKey", "Expectations", "expectation_key"]
