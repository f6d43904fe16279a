"""Explores every state that a small job can reach by events in any order, up to a number of disturbances."""
