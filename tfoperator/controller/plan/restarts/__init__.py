"""Restarts: of one replica or of all together, on another node, after disruptions, in place."""
