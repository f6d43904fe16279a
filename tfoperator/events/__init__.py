"""Kubernetes events about objects. They are combined and limited in number, and a background thread writes them."""

from tfoperator.events.recorder import EventRecorder
from tfoperator.kube.views.event import ObjectReference

__all__ = ["EventRecorder", "ObjectReference"]
