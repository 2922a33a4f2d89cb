"""Tests for ``tests/mutants``: sites, the import hook, loaded functions, selection of tests, sample and scores."""

from __future__ import annotations

import ast
import gc
import importlib.util
import os
import subprocess
import sys

import pytest

from tests.mutants import functions, sites
from tests.mutants.changes import parse
from tests.mutants.functions import LoadedFunctions
from tests.mutants.processes import HOOK, environment
from tests.mutants.runs import Result
from tests.mutants.scores import table
from tests.mutants.selection import UNIT_TESTS, Selection, mirror, module_name

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
    monkeypatch.setattr("tests.mutants.processes.ROOT", package)
    mutant = sites.mutants("limits/pods.py")[2]
    program = "from limits.pods import limited; print(limited(5, 5), limited(6, 5))"

    def run(variables):
        search = os.pathsep.join([str(package), str(HOOK)])
        env = {**os.environ, **variables, "PYTHONPATH": search}
        return subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        ).stdout

    assert run({}) == "True True\n"
    assert run(environment(mutant)) == "False True\n"
    assert not list((package / "limits").rglob(f"pods.*{mutant.index}*.pyc"))


def test_function_of_a_loaded_module_is_mutated(package, monkeypatch):
    monkeypatch.setattr(functions, "ROOT", package)
    limited = _load(package / "limits" / "pods.py").limited
    before = limited(5, 5)
    gc.freeze()  # As after the collection of tests.

    assert LoadedFunctions().mutate(sites.mutants("limits/pods.py")[2])

    assert (before, limited(5, 5), limited(6, 5)) == (True, False, True)


def test_closure_of_a_loaded_module_is_mutated(package, monkeypatch):
    monkeypatch.setattr(functions, "ROOT", package)
    path = package / "limits" / "closures.py"
    path.write_text("def limit(most):\n    return lambda count: count < most\nof_three = limit(3)\n")
    module = _load(path)

    assert LoadedFunctions([module.limit, module.of_three]).mutate(sites.mutants("limits/closures.py")[0])

    assert (module.of_three(3), module.limit(3)(3)) == (True, True)


def test_condition_evaluated_at_import_is_reported(package, monkeypatch):
    monkeypatch.setattr(functions, "ROOT", package)
    path = package / "limits" / "constants.py"
    path.write_text("LIMIT = 1 if 1 < 2 else 2\n")
    _load(path)

    assert not LoadedFunctions([]).mutate(sites.mutants("limits/constants.py")[0])


def test_lines_of_a_diff_are_those_added():
    diff = """\
--- a/nodeagent/old.py
+++ b/nodeagent/new.py
@@ -3 +3,2 @@ def limited():
-    return 1
+    a = 1
+    return a
@@ -9,2 +10,0 @@
-removed
-removed
@@ -20,0 +20 @@
+    added = 1
"""

    assert list(parse(diff)) == [("nodeagent/new.py", 3), ("nodeagent/new.py", 4), ("nodeagent/new.py", 20)]


def test_sample_is_limited_to_given_lines(package):
    chosen = sites.sample(100, 7, lines={("limits/pods.py", 7)})

    assert {mutant.line for mutant in chosen} == {7}


@pytest.mark.parametrize(
    ("path", "name", "test"),
    [
        ("nodeagent/podworker/desired.py", "nodeagent.podworker.desired", "podworker/test_desired.py"),
        ("apiserver_stub/feature_gates.py", "apiserver_stub.feature_gates", "apiserver_stub/test_feature_gates.py"),
        (
            "plugins/nodeagent_plugins/eviction/__init__.py",
            "nodeagent_plugins.eviction",
            "plugins/eviction/test_eviction.py",
        ),
        ("plugins/nodeagent_plugins/fail_swap_on.py", "nodeagent_plugins.fail_swap_on", "plugins/test_fail_swap_on.py"),
        ("nodeagent/absent/inner/module.py", "nodeagent.absent.inner.module", "test_absent.py"),
    ],
)
def test_mirrored_test_module_is_in_the_next_directory(path, name, test):
    assert module_name(path) == name
    assert mirror(path) == (UNIT_TESTS / test, (UNIT_TESTS / test).parent)


def test_tests_that_refer_to_the_module_are_selected(request):
    selection = Selection([request.node])

    selected = selection.tests(sites.Mutant("tests/mutants/sites.py", 0, 0, 1, "", ""))
    unrelated = selection.tests(sites.Mutant("nodeagent/pleg/absent.py", 0, 0, 1, "", ""))

    assert request.node in selected
    assert request.node not in unrelated


@pytest.mark.covers("nodeagent.pleg")
@pytest.mark.parametrize(
    ("path", "is_selected"),
    [("pleg/absent.py", True), ("pleg/in/absent.py", True), ("pleg.py", True), ("plegs.py", False)],
)
def test_tests_of_a_package_are_selected_for_its_modules(request, path, is_selected):
    selected = Selection([request.node]).tests(sites.Mutant(f"nodeagent/{path}", 0, 0, 1, "", ""))

    assert (request.node in selected) is is_selected


def test_explained_survivors_are_not_part_of_the_score():
    def result(number: int, stage: str) -> Result:
        return Result(sites.Mutant("nodeagent/base/limits.py", number, 0, 1, "", ""), stage, 1, 1)

    results = [
        result(0, "unit"),
        result(1, "unit"),
        result(2, "survived"),
        result(3, "survived"),
        result(4, "integration"),
    ]

    assert table(results, {results[2].mutant}).splitlines()[2:] == [
        "| nodeagent/base | 4 | 1 | 2 (50.0 %) | 3 (75.0 %) |",
        "| all | 4 | 1 | 2 (50.0 %) | 3 (75.0 %) |",
    ]


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
