"""Kubernetes events about objects: correlated, bounded, written in the background."""

from tfoperator.events.recorder import EventRecorder
from tfoperator.kube.views.event import ObjectReference

__all__ = ["EventRecorder", "ObjectReference"]
