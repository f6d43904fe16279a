"""Kubernetes events about objects: correlated, bounded, written in the background."""

from tfoperator.events.recorder import EventRecorder
from tfoperator.kube.event import ObjectReference

__all__ = ["EventRecorder", "ObjectReference"]
