"""``python -m tests.mutants``: test a sample of mutants and list those that no test detects."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants import survivors
from tests.mutants.changes import changed_lines
from tests.mutants.runs import Result, Runs
from tests.mutants.scores import table
from tests.mutants.sites import ROOT, sample


def main() -> int:
    options = _options()
    lines = changed_lines(options.since) if options.since else None
    chosen = sample(options.sample, options.seed, options.paths, lines)[options.part :: options.parts]
    print(f"{len(chosen)} mutants, seed {options.seed}", flush=True)
    runs = Runs(chosen, integration=options.integration, report=_print)
    runs.start()
    if not runs.results:
        raise SystemExit("no mutant was tested")
    return _report(runs.results, update=options.update)


def _print(result: Result, number: int) -> None:
    mutant = result.mutant
    print(
        f"{number:4}  {result.stage:12} {result.seconds:6.1f} s  {result.tests:4} tests"
        f"  {mutant.path}:{mutant.line}  {mutant.change}  {mutant.condition[:80]}",
        flush=True,
    )


def _report(results: Sequence[Result], *, update: bool) -> int:
    """Print the scores by package; the exit code is 1 if a survivor has no reason in the list."""
    explained = survivors.load()
    left = [result.mutant for result in results if not result.detected]
    unexplained = [mutant for mutant in left if not explained.get(mutant.key)]
    print(table(results, {mutant for mutant in left if explained.get(mutant.key)}))
    print(f"survived: {len(left)}, {len(left) - len(unexplained)} of them explained in {survivors.FILE.name}")
    if update:
        survivors.add(explained, left)
    return 1 if unexplained else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Change conditions of the code, one at a time, and run the unit tests of their modules."
        " Ctrl-C prints the scores of the mutants so far, which are a sample too.",
    )
    parser.add_argument("--sample", type=int, default=24, help="number of mutants (default: 24)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: 1)")
    parser.add_argument("--since", metavar="REVISION", help="mutate only lines that changed since a Git revision")
    parser.add_argument("--part", type=int, default=0, help="which part of the sample to test, from 0")
    parser.add_argument("--parts", type=int, default=1, help="number of parts, which can run at the same time")
    parser.add_argument("--integration", action="store_true", help="run integration tests on survivors; as root")
    parser.add_argument("--update", action="store_true", help="add survivors to the list")
    parser.add_argument("paths", nargs="*", help="modules to mutate instead of all, relative to the repository")
    options = parser.parse_args()
    if missing := [path for path in options.paths if not Path(ROOT / path).is_file()]:
        parser.error(f"not found: {', '.join(missing)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
