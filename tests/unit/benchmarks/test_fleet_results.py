"""Tests for the recorded results of the fleet and their charts."""

from __future__ import annotations

from pathlib import Path

from benchmarks import fleet_plots, fleet_results


def test_results_replace_those_of_the_same_server_and_number(tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    for server, nodes, running in (("b", 300, 5.0), ("a", 300, 7.0), ("b", 100, 2.0), ("b", 300, 6.0)):
        fleet_results.store(server, nodes, {"running": running}, file)

    found = [(result["server"], result["nodes"], result["figures"]) for result in fleet_results.read(file)]

    assert found == [("a", 300, {"running": 7.0}), ("b", 100, {"running": 2.0}), ("b", 300, {"running": 6.0})]


def test_charts_have_a_line_per_server(tmp_path: Path) -> None:
    results = [
        {"server": server, "nodes": nodes, "figures": {"running": nodes / 10, "p99_POST": 3.0, "rss": 200.0}}
        for server in ("bundled", "other")
        for nodes in (100, 300)
    ]

    fleet_plots.draw(results, tmp_path / "fleet.svg")

    text = (tmp_path / "fleet.svg").read_text()
    assert ">bundled<" in text and ">other<" in text
    assert ">watch lag, p99<" in text
