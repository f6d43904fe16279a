from typing import Any


class PlainSettings:
    """The part of docker-py's client that makes settings of arguments: here they stay as they are."""

    def create_host_config(self, **settings: Any) -> dict[str, Any]:
        return settings

    def create_endpoint_config(self, **settings: Any) -> dict[str, Any]:
        return settings

    def create_networking_config(self, settings: dict[str, Any]) -> dict[str, Any]:
        return settings
