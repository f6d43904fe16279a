"""Docker: a component's container on a Docker engine.

`client.py` reaches the engine through docker-py, `config.py` is what a platform config can say, `backend.py` creates,
follows and removes a container, and `launcher.py` turns a component and its config into the call for that.
"""

from tfoperator.launcher.platforms.docker.config import DockerPlatformConfig
from tfoperator.launcher.platforms.docker.launcher import DockerComponentLauncher

__all__ = ["DockerComponentLauncher", "DockerPlatformConfig"]
