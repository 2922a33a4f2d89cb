"""Results of the fleet by server and number of nodes: ``history/fleet.json``."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import host, versions

FILE = versions.DIRECTORY / "history" / "fleet.json"


def store(server: str, nodes: int, figures: Mapping[str, float], file: Path = FILE) -> None:
    """Add the figures of *nodes* nodes; they replace earlier ones of the same server and number.

    :param server: name of the API server and its store.
    """
    result = {
        "server": server,
        "nodes": nodes,
        "version": versions.current(),
        "day": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "host": host.facts(),
        "figures": {key: float(f"{value:.4g}") for key, value in figures.items()},
    }
    kept = [other for other in read(file) if (other["server"], other["nodes"]) != (server, nodes)]
    ordered = sorted([*kept, result], key=lambda other: (other["server"], other["nodes"]))
    file.write_text("[\n" + ",\n".join(json.dumps(item) for item in ordered) + "\n]\n")


def read(file: Path = FILE) -> list[dict[str, Any]]:
    """Return all results, by server and number of nodes."""
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return found
