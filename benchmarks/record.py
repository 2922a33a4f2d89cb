"""The results that are kept: ``results.json``, and ``RESULTS.md`` made from it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import REFERENCE, Benchmark, table

FOLDER = Path(__file__).parent
DATA = FOLDER / "results.json"
PAGE = FOLDER / "RESULTS.md"

HEAD = f"""\
# Results

Made by `python -m benchmarks --record`; see [docs/benchmarks.md](../docs/benchmarks.md). The reference is the
{REFERENCE}: where it says "same day", measured in
turns with ours on this machine, otherwise figures of another day, for the order of magnitude. A figure without a goal
is there to be watched.
"""


def document(
    name: str,
    runs: Sequence[Mapping[str, float]],
    reference: Sequence[Mapping[str, float]],
    machine: Mapping[str, str],
    load: float,
) -> dict[str, Any]:
    """Return the results of one benchmark in the form that is kept."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {
        "name": name,
        "day": day,
        "load": round(load, 2),
        "machine": dict(machine),
        "runs": _rounded(runs),
        "reference": _rounded(reference),
    }


def keep(results: Sequence[Mapping[str, Any]], benchmarks: Mapping[str, Benchmark]) -> None:
    """Replace the kept results of the same benchmarks, and make the page again."""
    kept = {result["name"]: result for result in json.loads(DATA.read_text())} if DATA.exists() else {}
    kept |= {result["name"]: result for result in results}
    ordered = [kept[name] for name in benchmarks if name in kept]
    DATA.write_text(json.dumps(ordered, indent=1) + "\n")
    PAGE.write_text("\n".join([HEAD, *(_section(result, benchmarks[result["name"]]) for result in ordered)]))


def _section(result: Mapping[str, Any], benchmark: Benchmark) -> str:
    about = (benchmark.__doc__ or "").strip().splitlines()[0]
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    head, *rows = table(benchmark.FIGURES, result["runs"], result.get("reference", ()))
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows)]
    conditions = f"{len(result['runs'])} runs on {result['day']}, load before {result['load']:g}; {machine}."
    return "\n".join([f"## {result['name']}", "", about, "", *lines, "", conditions, ""])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rounded(runs: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    return [{key: float(f"{value:.4g}") for key, value in run.items()} for run in runs]
