"""Elects one leader among several replicas of a program, by a Lease."""

from tfoperator.leaderelection.elector import LeaderElector
from tfoperator.leaderelection.lease import LeaseLock

__all__ = ["LeaderElector", "LeaseLock"]
