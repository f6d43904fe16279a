"""The reflector, which keeps a sink equal to a collection on the API server, and what it is made of."""

from tfoperator.informers.reflector.backoff import LONGEST_WISH

__all__ = ["LONGEST_WISH"]
