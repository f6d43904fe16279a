"""Docker: a component's container on a Docker engine.

`client.py` reaches the engine through docker-py, `backend.py` creates, follows and removes a container, and
`launcher.py` turns a component and its config into the call for that.
"""
