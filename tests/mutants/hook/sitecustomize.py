"""Import hook: compiles one module with a mutation, in each Python process with ``NODEAGENT_MUTANT`` set.

The directory of this module is in ``PYTHONPATH`` of such processes. The files of the project are not changed.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from types import CodeType
from typing import Any


class MutatingLoader(SourceFileLoader):
    """Loader of the mutated module; it neither uses nor writes the cache of compiled modules."""

    index = 0
    part = 0

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        spec = importlib.util.spec_from_file_location("tests_mutants_sites", os.environ["NODEAGENT_MUTANT_SITES"])
        assert spec is not None
        assert spec.loader is not None
        sites = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = sites  # Its data class looks its module up.
        spec.loader.exec_module(sites)
        tree = sites.mutate(ast.parse(self.get_data(path)), self.index, self.part)
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class Finder:
    """Finder of the mutated module only."""

    def __init__(self, path: str, index: int, part: int) -> None:
        self._path, self._index, self._part = path, index, part
        self._name = os.path.basename(path).removesuffix(".py")
        if self._name == "__init__":
            self._name = os.path.basename(os.path.dirname(path))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.rpartition(".")[2] != self._name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin != self._path:
            return None
        loader = MutatingLoader(name, self._path)
        loader.index, loader.part = self._index, self._part
        spec.loader = loader
        spec.cached = None
        return spec


def install(description: str) -> None:
    """Mutate the module that *description*, ``PATH:INDEX:PART``, names."""
    path, index, part = description.rsplit(":", 2)
    sys.meta_path.insert(0, Finder(path, int(index), int(part)))


if mutant := os.environ.get("NODEAGENT_MUTANT"):
    install(mutant)
