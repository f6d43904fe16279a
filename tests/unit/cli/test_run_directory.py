import logging
from pathlib import Path

import pytest

from tfoperator.cli import run_directory
from tfoperator.cli.run_directory import logging_to
from tfoperator.cli.terminal.errors import CliError


def test_a_run_keeps_the_log_of_the_operator_and_a_full_disk_costs_lines_of_it_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_to(tmp_path / "run.log"):
        logging.getLogger("tfoperator.x").info("one")
        with pytest.raises(CliError, match="another run"), logging_to(tmp_path / "run.log"):
            pass
    logging.getLogger("tfoperator.x").info("two")
    assert "one" in (tmp_path / "run.log").read_text()
    assert "two" not in (tmp_path / "run.log").read_text()
    log = run_directory._RunLog("/dev/full")
    log.handle(logging.LogRecord("x", logging.INFO, "", 0, "text", (), None))
    log.close()
    assert capsys.readouterr().err == ""
