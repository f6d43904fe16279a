from tests.support.fixtures import every_thread_ends, postgres, postgres_process
from tests.unit.pipeline.conftest import counted

__all__ = ["counted", "every_thread_ends", "postgres", "postgres_process"]
