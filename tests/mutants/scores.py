"""Scores: shares of detected mutants by package."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence

from tests.mutants.runs import Result
from tests.mutants.sites import PACKAGES, Mutant


def table(results: Sequence[Result], explained: Container[Mutant]) -> str:
    """Return a Markdown table of the scores; the *explained* survivors are not counted."""
    groups: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        for name in (package_of(result.mutant.path), "all"):
            groups[name].append(result)
    lines = ["| package | mutants | explained | unit tests | all tests |", "|---|---|---|---|---|"]
    for name in sorted(groups, key=lambda name: (name == "all", name)):
        counted = [result for result in groups[name] if result.detected or result.mutant not in explained]
        unit = sum(result.stage == "unit" for result in counted)
        detected = sum(result.detected for result in counted)
        lines.append(
            f"| {name} | {len(counted)} | {len(groups[name]) - len(counted)}"
            f" | {_share(unit, len(counted))} | {_share(detected, len(counted))} |"
        )
    return "\n".join(lines)


def package_of(path: str) -> str:
    """Return the package of a module: two levels, and the plugins together."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] not in PACKAGES or len(parts) > 2 else parts[0]


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.1f} %)" if total else "–"
