"""Tests for ``tests/mutants``: sites, the import hook, and the sample."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.mutants import sites
from tests.mutants.runs import HOOK, environment

SOURCE = """
from typing import overload

def limited(count, limit, *, unlimited=False):
    if not unlimited and count >= limit:
        return True
    return 1 < count <= 2
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with one module, instead of those of the project."""
    (tmp_path / "limits").mkdir()
    (tmp_path / "limits" / "__init__.py").touch()
    (tmp_path / "limits" / "pods.py").write_text(SOURCE)
    monkeypatch.setattr(sites, "ROOT", tmp_path)
    monkeypatch.setattr(sites, "PACKAGES", ("limits",))
    return tmp_path


def test_each_operator_of_a_condition_is_a_mutant(package):
    changes = [(mutant.line, mutant.change) for mutant in sites.mutants("limits/pods.py")]

    assert changes == [(5, "and → or"), (5, "not removed"), (5, ">= → >"), (7, "< → <="), (7, "<= → <")]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "not unlimited or count >= limit"),
        (1, "not not unlimited and count >= limit"),
        (2, "not unlimited and count > limit"),
        (4, "1 < count < 2"),
    ],
)
def test_mutation_changes_one_operator(package, number, text):
    mutant = sites.mutants("limits/pods.py")[number]

    changed = ast.unparse(sites.mutate(ast.parse(SOURCE), mutant.index, mutant.part))

    assert text in changed
    assert len(set(changed.splitlines()) - set(ast.unparse(ast.parse(SOURCE)).splitlines())) == 1


def test_sample_is_the_same_for_the_same_seed(package):
    assert sites.sample(3, seed=7) == sites.sample(3, seed=7)
    assert len(sites.sample(100, seed=7)) == len(sites.mutants("limits/pods.py"))


def test_generated_modules_are_not_mutated(package):
    (package / "limits" / "api_pb2.py").write_text("x = 1 < 2\n")

    assert sites.modules() == ["limits/__init__.py", "limits/pods.py"]


def test_process_with_a_mutant_runs_the_changed_module_only(package, monkeypatch):
    monkeypatch.setattr("tests.mutants.runs.ROOT", package)
    mutant = sites.mutants("limits/pods.py")[2]
    program = "from limits.pods import limited; print(limited(5, 5), limited(6, 5))"

    def run(variables):
        search = os.pathsep.join([str(package), str(HOOK)])
        env = {**os.environ, **variables, "PYTHONPATH": search}
        return subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        ).stdout

    assert run(environment(None)) == "True True\n"
    assert run(environment(mutant)) == "False True\n"
    assert not list((package / "limits").rglob(f"pods.*{mutant.index}*.pyc"))
