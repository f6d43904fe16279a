"""Judges what happened. Written from what a TFJob means, and without any module of the operator's controller."""
