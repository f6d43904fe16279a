"""Sends a folder of this machine to the replicas of a job. So the user need not build an image with this folder."""
