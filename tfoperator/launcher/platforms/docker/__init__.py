"""Docker: a component's container on a Docker engine.

`client.py` connects to the engine through docker-py. `backend.py` creates, follows and removes a container.
`launcher.py` converts a component and its config into the request that creates the container.
"""
