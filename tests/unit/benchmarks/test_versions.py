"""Tests for the recorded results of earlier versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import plots, versions
from benchmarks.figures import Figure


def result(name: str, *values: float) -> dict[str, Any]:
    runs = [{"rss": value} for value in values]
    return {"name": name, "day": "2026-11-28", "host": {"processor": "x"}, "runs": runs, "upstream": []}


def test_results_of_a_version_replace_its_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    versions.append("a", [result("idle", 1.0), result("start", 5.0)], file)
    versions.append("b", [result("idle", 2.0)], file)
    versions.append("a", [result("idle", 4.0, 3.0, 8.0)], file)

    found = [(line["version"], line["name"], line["runs"], line["figures"]["rss"]) for line in versions.read(file)]

    assert found == [
        ("a", "start", 1, [5.0, 5.0, 5.0]),
        ("b", "idle", 1, [2.0, 2.0, 2.0]),
        ("a", "idle", 3, [3.0, 4.0, 8.0]),
    ]


def test_equal_results_are_drawn_equally(tmp_path: Path) -> None:
    points = [{"version": "a", "day": "2026-11-28", "figures": [1.0, 2.0, 3.0], "upstream": [4.0, 4.0, 4.0]}]
    for name in ("first.svg", "second.svg"):
        plots.draw([("idle", Figure("rss", "memory, median of 5", "MiB", at_most=2.0), points)], tmp_path / name)

    text = (tmp_path / "first.svg").read_text()
    assert text == (tmp_path / "second.svg").read_text()
    assert ">idle: memory<" in text
    assert ">upstream<" in text
