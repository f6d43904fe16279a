"""What have the containers of this machine logged? A file per container and attempt, and the times of its lines."""

from tfoperator.local.node.logs.log_store import LogStore

__all__ = ["LogStore"]
