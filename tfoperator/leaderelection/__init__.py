"""Elects one leader among several replicas of a program, by a Lease object, as client-go's `leaderelection` does."""

from tfoperator.leaderelection.elector import LeaderElector
from tfoperator.leaderelection.lease import LeaseLock

__all__ = ["LeaderElector", "LeaseLock"]
