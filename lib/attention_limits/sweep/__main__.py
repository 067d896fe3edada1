"""``python -m attention_limits.sweep``: write the table of a grid, or gather the results of a sweep anew."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from attention_limits import execute

from . import CHAPTERS, SweepError, collect, determined, gather, grid, read


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status (0, or 1 with the reason on stderr)."""
    parser = argparse.ArgumentParser(prog="python -m attention_limits.sweep", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    of_grid = commands.add_parser("grid", help="print the table of every model with every text and length")
    of_grid.add_argument("--models", nargs="+", required=True)
    of_grid.add_argument("--texts", nargs="+", required=True)
    of_grid.add_argument("--lengths", nargs="+", type=int, required=True)
    of_collect = commands.add_parser("collect", help="write results.csv and cells.csv from the records found")
    of_collect.add_argument("table", type=Path)
    of_collect.add_argument("out", type=Path, help="build folder; the cells lie in its folder sweep")
    of_collect.add_argument("--chapters", nargs="+", default=list(CHAPTERS))
    options = parser.parse_args(arguments)
    if options.command == "grid":
        rows = list(grid(options.models, options.texts, options.lengths))
        writer = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return 0
    try:
        declared = {name: execute.declared(execute.read(f"notebooks/{name}.md")) for name in options.chapters}
        cells = read(options.table, declared)
    except (SweepError, execute.ExecutionError) as error:
        print(error, file=sys.stderr)
        return 1
    wanted = {
        (label, name): determined(declared[name], cell) for label, cell in cells.items() for name in declared
    }
    jobs = gather(cells, wanted, options.out)
    print(collect(jobs, options.out))
    return 0 if all(job.state == "done" for job in jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
