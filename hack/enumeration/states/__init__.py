"""Explores every state that a small job can reach in whatever order, up to a number of disturbances."""
