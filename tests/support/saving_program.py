"""A training of numbered steps that saves with `Saving`, and notes in DIR/worker-N what it does: starts and steps.

`python saving_program.py DIR EVERY`: it goes on from DIR/worker-N.kept, and never ends by itself. The notes are for who
counts the steps that an end has cost.
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path

from tfoperator.progress import Saving

STEP_SECONDS = 0.01


def main(folder: Path, every: int) -> None:
    name = f"worker-{json.loads(os.environ['TF_CONFIG'])['task']['index']}"
    kept = folder / f"{name}.kept"

    def save(step: int) -> None:
        partial = kept.with_suffix(".partial")
        partial.write_text(str(step))
        partial.replace(kept)

    first = int(kept.read_text()) if kept.exists() else 0
    with (folder / name).open("ab", buffering=0) as notes, Saving(save, every=every) as saving:
        notes.write(b"start %d\n" % first)
        for step in itertools.count(first + 1):
            time.sleep(STEP_SECONDS)
            notes.write(b"%d\n" % step)
            saving.after_step(step)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
