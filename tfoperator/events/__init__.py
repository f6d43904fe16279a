"""Kubernetes events about objects: correlated, bounded, written in the background."""

from tfoperator.events.recorder import EventRecorder
from tfoperator.events.reference import ObjectReference

__all__ = ["EventRecorder", "ObjectReference"]
