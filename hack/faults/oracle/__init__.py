"""Checks the history of objects by the documented meaning of a TFJob, without the modules of the controller."""
