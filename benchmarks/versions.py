"""Results of earlier versions: ``history/results.jsonl``, one line per benchmark and version, oldest first."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import UPSTREAM_RUNS

DIRECTORY = Path(__file__).parent
FILE = DIRECTORY / "history" / "results.jsonl"


def current() -> str:
    """Return the version of the measured code: the abbreviated commit.

    :raises RuntimeError: this is not a git clone.
    """
    done = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=DIRECTORY, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the version cannot be determined: {done.stderr.strip()}")
    return done.stdout.strip()


def entry(version: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of one *result* of ``results.json``: minimum, median and maximum of each figure."""
    line = {
        "version": version,
        "day": result["day"],
        "name": result["name"],
        "runs": len(result["runs"]),
        "processor": result["host"]["processor"],
        "figures": _summary(result["runs"]),
    }
    upstream = result.get(UPSTREAM_RUNS)
    return line | ({UPSTREAM_RUNS: _summary(upstream)} if upstream else {})


def append(version: str, results: Iterable[Mapping[str, Any]], file: Path = FILE) -> None:
    """Add *results* of *version*; they replace earlier ones of the same version."""
    new = [entry(version, result) for result in results]
    names = {line["name"] for line in new}
    kept = [line for line in read(file) if line["version"] != version or line["name"] not in names]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in [*kept, *new]))


def read(file: Path = FILE) -> list[dict[str, Any]]:
    """Return all lines, oldest first."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _summary(runs: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    found = {}
    for key in runs[0]:
        values = sorted(run[key] for run in runs if key in run)
        found[key] = [float(f"{value:.4g}") for value in (values[0], statistics.median(values), values[-1])]
    return found
