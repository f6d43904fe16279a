"""One leader among several replicas, by a Lease."""

from tfoperator.leaderelection.elector import LeaderElector
from tfoperator.leaderelection.lease import Lease, LeaseLock, LeaseRecord

__all__ = ["LeaderElector", "Lease", "LeaseLock", "LeaseRecord"]
