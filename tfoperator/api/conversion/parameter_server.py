"""The parameter server that v1alpha1's operator ran for a PS replica without a template, written out as a template.

Its operator mounted a gRPC server's source into a stock TensorFlow image. The same written out says everything that
runs, and needs no operator that has an image for it.
"""

from __future__ import annotations

from typing import Any

from tfoperator.api import parameter_server

__all__ = ["DEFAULT_IMAGE", "parameter_server_template"]

DEFAULT_IMAGE = "tensorflow/tensorflow:1.3.0"
"""v1alpha1's default of `tfImage`."""


def parameter_server_template(image: str = "") -> dict[str, Any]:
    """A pod template that serves until it is stopped, in `image` or the default one."""
    return parameter_server.parameter_server_template(image or DEFAULT_IMAGE)
