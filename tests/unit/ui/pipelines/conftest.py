from tests.support.services import postgres, postgres_process
from tests.support.threads import every_thread_ends
from tests.unit.pipeline.conftest import counted

__all__ = ["counted", "every_thread_ends", "postgres", "postgres_process"]
