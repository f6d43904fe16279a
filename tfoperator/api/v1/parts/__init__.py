"""The parts of a TFJob: for each part, its fields in the spec and its state in the status."""
