"""``python -m tests.mutants``: test a sample of mutants and list those that no test detects."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants import coverage_map, survivors
from tests.mutants.runs import Result, UnitTests, detect_by_integration_tests
from tests.mutants.sites import ROOT, Mutant, sample

LOGS = ROOT / "build" / "mutants"
SANITY_TEST = Path("tests/unit/tools/test_mutants.py")
TESTS_AT_ONCE = 12
"""Test modules of the first run; most mutants are detected by them, without those that also execute the line."""


def main() -> int:
    options = _options()
    if options.record or not coverage_map.DATA.exists():
        coverage_map.record()
    chosen = sample(options.sample, options.seed, options.paths)
    chosen = chosen[options.part :: options.parts]
    print(f"{len(chosen)} mutants, seed {options.seed}", flush=True)
    results = _test(chosen, integration=options.integration)
    return _report(results, update=options.update)


def _test(chosen: Sequence[Mutant], *, integration: bool) -> list[Result]:
    unit, covered, results = UnitTests(), coverage_map.CoverageMap(), []
    if unit.detect(None, [str(SANITY_TEST)], LOGS / "unchanged.log"):
        raise SystemExit(f"tests fail without a mutant: {LOGS / 'unchanged.log'}")
    for number, mutant in enumerate(chosen):
        log, started = LOGS / f"{mutant.path.replace('/', '.')}-{mutant.index}-{mutant.part}.log", time.monotonic()
        tests = covered.tests(mutant.path, mutant.line)
        batches = [batch for batch in (tests[:TESTS_AT_ONCE], tests[TESTS_AT_ONCE:]) if batch]
        stage = "survived"
        if any(unit.detect(mutant, batch, log) for batch in batches):
            stage = "unit"
        elif integration and detect_by_integration_tests(mutant, log):
            stage = "integration"
        else:
            stage = "survived" if tests else "not executed"
        result = Result(mutant, stage, time.monotonic() - started, f"{len(tests)} test modules")
        results.append(result)
        if stage in ("unit", "integration"):
            log.unlink(missing_ok=True)
        print(
            f"{number + 1:4}  {stage:12} {result.seconds:6.1f} s  {mutant.path}:{mutant.line}  {mutant.change}"
            f"  {mutant.condition[:80]}",
            flush=True,
        )
    return results


def _report(results: Sequence[Result], *, update: bool) -> int:
    """Print the shares of detected mutants; the exit code is 1 if a survivor has no reason in the list."""
    explained = survivors.load()
    left = [result.mutant for result in results if result.stage not in ("unit", "integration")]
    counts = {stage: sum(result.stage == stage for result in results) for stage in ("unit", "integration")}
    open_ones = [mutant for mutant in left if not explained.get(mutant.key)]
    total = max(1, len(results) - (len(left) - len(open_ones)))
    for stage, count in (("unit tests", counts["unit"]), ("all tests", sum(counts.values()))):
        print(f"detected by {stage}: {count} of {total} ({100 * count / total:.1f} %)")
    print(f"survived: {len(left)}, {len(left) - len(open_ones)} of them explained in {survivors.FILE.name}")
    if update:
        survivors.add(explained, left)
    return 1 if open_ones else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Change conditions of the code, one at a time, and run the tests that execute them.",
    )
    parser.add_argument("--sample", type=int, default=24, help="number of mutants (default: 24)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: 1)")
    parser.add_argument("--part", type=int, default=0, help="which part of the sample to test, from 0")
    parser.add_argument("--parts", type=int, default=1, help="number of parts, which can run at the same time")
    parser.add_argument("--integration", action="store_true", help="run integration tests on survivors; as root")
    parser.add_argument("--update", action="store_true", help="add survivors to the list")
    parser.add_argument("--record", action="store_true", help="record again which tests execute which lines")
    parser.add_argument("paths", nargs="*", help="modules to mutate instead of all, relative to the repository")
    options = parser.parse_args()
    if missing := [path for path in options.paths if not Path(ROOT / path).is_file()]:
        parser.error(f"not found: {', '.join(missing)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
