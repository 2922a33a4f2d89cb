"""Checks of the tables of attacks in ``docs/security.md``: their tests exist, and each vulnerability has one row."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
IDENTIFIER = re.compile(r"CVE-\d{4}-\d{4,}")
MINIMUM = 60


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the rows of the table below *heading*."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


VULNERABILITIES = rows("Published vulnerabilities")
CLASSES = rows("Attack classes without an identifier")
EXCLUDED = rows("Vulnerabilities that do not apply")


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the test functions in a module."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(file.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_named_tests_exist() -> None:
    named = [row[-1].strip("`").partition("::") for row in (*VULNERABILITIES, *CLASSES)]

    missing = [
        f"{path}::{name}" for path, _, name in named if not name.startswith("test_") or name not in names_in(path)
    ]

    assert missing == []


def test_every_vulnerability_has_one_complete_row() -> None:
    identifiers = [row[0] for row in VULNERABILITIES]

    assert len(identifiers) >= MINIMUM
    assert len(set(identifiers)) == len(identifiers)
    assert all(IDENTIFIER.fullmatch(identifier) for identifier in identifiers)
    assert [row for row in VULNERABILITIES if len(row) != 5 or not all(row)] == []
    assert [row for row in CLASSES if len(row) != 4 or not all(row)] == []


def test_excluded_vulnerabilities_have_a_reason_and_no_test() -> None:
    excluded = {identifier for row in EXCLUDED for identifier in IDENTIFIER.findall(row[0])}

    assert excluded
    assert excluded.isdisjoint(row[0] for row in VULNERABILITIES)
    assert all(len(row) == 2 and row[1] for row in EXCLUDED)
