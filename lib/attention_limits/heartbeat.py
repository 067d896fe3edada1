"""Where a notebook that runs is: a line at its start and end, and in between every so many seconds."""

from __future__ import annotations

import re
import sys
import threading
import time
from typing import Any

SECONDS = 20  # between two lines


class Heartbeat:
    """Says at the start, every SECONDS seconds and at the end where the notebook is.

    It is the file for what the notebook says on standard error, too: a progress bar becomes the end of the next line,
    so that those of two notebooks at once do not write over each other; all else is passed on.
    """

    def __init__(self, name: str, node: Any):
        self.name, self.place, self.bar = name, "its first cell", ""
        self.total = sum(cell.cell_type == "code" for cell in node.cells)
        self._done = threading.Event()
        self._start = time.monotonic()

    def __enter__(self) -> Heartbeat:
        self.say(f"started, {self.total} code cells")
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._done.set()
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.say("interrupted" if interrupted else "failed" if kind else "finished")

    def say(self, words: str) -> None:
        """Print a line with the notebook's name and the seconds since its start."""
        # In one piece with its end of line, so that two jobs at once do not share a line.
        print(f"{self.name}: {words} ({time.monotonic() - self._start:.0f} s)\n", end="", flush=True)

    def write(self, said: str) -> None:
        """Keep the last state of a progress bar, which starts with a carriage return, and pass on other lines."""
        for part in re.findall(r"\r?[^\r\n]+\n?", said):
            if part.startswith("\r"):
                self.bar = f"; {part.strip()}" if part.strip() else ""
            else:
                print(part, end="", file=sys.stderr, flush=True)

    def flush(self) -> None:
        """Nothing waits to be written."""

    def _beat(self) -> None:
        while not self._done.wait(SECONDS):
            self.say(f"in {self.place}{self.bar}")

    def engine(self) -> str:
        """Register papermill's engine with one addition, that a starting cell is noted; return its name."""
        from papermill.engines import NBClientEngine, papermill_engines

        heartbeat = self

        class Engine(NBClientEngine):
            @classmethod
            def execute_managed_notebook(cls, manager: Any, kernel_name: str, **options: Any) -> Any:
                """Papermill's own, with every start of a cell noted."""
                start, count = manager.cell_start, 0

                def note(cell: Any, *args: Any, **more: Any) -> Any:
                    """Set the place to this cell, unless papermill put it in, and start it."""
                    nonlocal count
                    if cell.cell_type == "code" and "injected-parameters" not in cell.metadata.get(
                        "tags", ()
                    ):
                        count += 1
                        first = next((line for line in cell.source.splitlines() if line.strip()), "")
                        heartbeat.place = f"code cell {count} of {heartbeat.total}: {first.strip()}"
                        heartbeat.bar = ""
                    return start(cell, *args, **more)

                manager.cell_start = note
                return super().execute_managed_notebook(manager, kernel_name, **options)

        papermill_engines.register("heartbeat", Engine)
        return "heartbeat"
