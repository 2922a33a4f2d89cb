"""List of mutants that no test detects, each with the reason why it stays: ``survivors.tsv``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutants.sites import Mutant

FILE = Path(__file__).parent / "survivors.tsv"
HEADER = "# module: condition: change<tab>reason why no test needs to detect it\n"


def load() -> dict[str, str]:
    """Return the reasons by key of the mutant."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    rows = (line.split("\t", 1) for line in lines if line and not line.startswith("#"))
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


def add(reasons: Mapping[str, str], survivors: Sequence[Mutant]) -> None:
    """Write the list with *survivors* added; the reason of a new one is empty."""
    rows = {**{mutant.key: "" for mutant in survivors}, **reasons}
    FILE.write_text(HEADER + "".join(f"{key}\t{rows[key]}\n" for key in sorted(rows)), encoding="utf-8")
