"""One leader among several replicas, by a Lease."""

from tfoperator.leaderelection.elector import LeaderElector
from tfoperator.leaderelection.lease import LeaseLock

__all__ = ["LeaderElector", "LeaseLock"]
