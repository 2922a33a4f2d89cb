"""Selection of the unit tests of a module: by location, by the modules whose names a test refers to, and by a marker.

A test with the marker ``covers`` is for modules, or for all modules of packages.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants.sites import ROOT, Mutant

UNIT_TESTS = ROOT / "tests" / "unit"
INTEGRATION_TESTS = ROOT / "tests" / "integration"
TEST_MODULES = ("tests.", "nodeagent.testing", "conftest")
"""Prefixes of modules that support tests: their references count as references of the tests that use them."""
LIMIT = 200
"""Tests per mutant, unless the mirrored module has more: thousands refer to users of a module of the lowest layer."""
INTEGRATION_LIMIT = 60

INTEGRATION: Mapping[str, Sequence[str]] = {
    "apiserver_stub": ["apiserver"],
    "nodeagent/apiclient": ["apiclient", "agent"],
    "nodeagent/authoring": ["authoring", "plugins"],
    "nodeagent/cli": ["cli", "agent"],
    "nodeagent/demo": ["agent/test_demo.py"],
    "nodeagent/server": ["server"],
    "nodeagent/testing": ["testing", "authoring"],
    "nodeagent": ["agent", "cli", "plugins", "shutdown"],
    "plugins/nodeagent_plugins/cri": ["cri", "agent"],
    "plugins/nodeagent_plugins/embedded_runtime": ["embedded_runtime"],
    "plugins/nodeagent_plugins/eviction": ["eviction", "agent"],
    "plugins/nodeagent_plugins/routes_": ["server"],
    "plugins/nodeagent_plugins/auth": ["server"],
    "plugins/nodeagent_plugins/shutdown": ["shutdown"],
    "plugins/nodeagent_plugins/credential": ["credential_exec"],
    "plugins": ["agent", "plugins", "eviction"],
}
"""Integration tests by the prefix of a module's path; the longest prefix applies."""


def candidates(mutants: Iterable[Mutant], *, integration: bool) -> list[str]:
    """Return the paths of the test modules to collect: those that mirror or mention a module of *mutants*.

    :param integration: add the integration tests of their packages.
    """
    paths = {mutant.path for mutant in mutants}
    directories = {directory for _, directory in map(mirror, paths)}
    packages = {package for path in paths for package in _packages(module_name(path))}
    mentioned = re.compile("|".join(rf"\b{re.escape(package)}\b" for package in packages))
    found = {
        test
        for test in UNIT_TESTS.rglob("test_*.py")
        if test.parent in directories or mentioned.search(test.read_text(encoding="utf-8"))
    }
    if integration:
        found.update(test for path in paths for location in _integration(path) for test in _test_modules(location))
    return sorted(map(str, found))


class Selection:
    """The collected tests, by the modules that they refer to."""

    def __init__(self, tests: Sequence[pytest.Item]) -> None:
        self._references: dict[str, frozenset[str]] = {}
        self._unions: dict[tuple[str, ...], frozenset[str]] = {}
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        for module in list(sys.modules.values()):
            if _is_project(name := module.__name__):
                for reference in self._references_of(module):
                    self._users[reference].add(name)
        self._tests = [(test, self._of_test(test)) for test in tests if test.path.is_relative_to(UNIT_TESTS)]
        self._integration_tests = [test for test in tests if test.path.is_relative_to(INTEGRATION_TESTS)]

    def tests(self, mutant: Mutant) -> list[pytest.Item]:
        """Return the tests for *mutant*: the mirrored module, those that refer to its module or to users of it."""
        module = module_name(mutant.path)
        users = self._users[module]
        mirrored, directory = mirror(mutant.path)
        ranked: list[tuple[int, float, pytest.Item]] = []
        for test, references in self._tests:
            shared = len(users & references)
            if test.path == mirrored:
                rank = 0
            elif module in references and test.path.is_relative_to(directory):
                rank = 1
            elif _covers(test, module):
                rank = 2
            elif module in references:
                rank = 3
            elif shared:
                rank = 4 if test.path.is_relative_to(directory) else 6
            elif directory != UNIT_TESTS and test.path.parent == directory:
                rank = 5
            else:
                continue
            # A test that refers to little else is specific, and short.
            ranked.append((rank, -shared / max(1, len(references)) if rank in (4, 6) else 0, test))
        limit = max(LIMIT, sum(rank == 0 for rank, _, _ in ranked))
        return [test for _, _, test in sorted(ranked, key=lambda item: item[:2])[:limit]]

    def integration_tests(self, mutant: Mutant) -> list[pytest.Item]:
        """Return the integration tests of the package, first those whose module shares words with its path."""
        locations, words = _integration(mutant.path), _words(Path(mutant.path))
        found = [test for test in self._integration_tests if any(map(test.path.is_relative_to, locations))]
        return sorted(found, key=lambda test: -len(words & _words(test.path)))[:INTEGRATION_LIMIT]

    def _of_test(self, test: pytest.Item) -> frozenset[str]:
        assert isinstance(test, pytest.Function)
        modules = {test.module.__name__: test.module}
        for definitions in test._fixtureinfo.name2fixturedefs.values():
            for definition in definitions:
                name = definition.func.__module__
                if name.startswith(TEST_MODULES) and (module := sys.modules.get(name)):
                    modules[name] = module
        key = tuple(sorted(modules))
        if key not in self._unions:
            self._unions[key] = frozenset().union(*map(self._references_of, modules.values()))
        return self._unions[key]

    def _references_of(self, module: ModuleType) -> frozenset[str]:
        """Return the names of the modules of the project that *module* refers to."""
        name = module.__name__
        if name not in self._references:
            self._references[name] = frozenset()  # Support modules may refer to each other.
            found = set(_referenced(module))
            for reference in list(found):
                if reference.startswith(TEST_MODULES) and reference in sys.modules:
                    found |= self._references_of(sys.modules[reference])
            self._references[name] = frozenset(found)
        return self._references[name]


def module_name(path: str) -> str:
    """Return the name under which the module at *path* is imported."""
    parts = Path(path.removeprefix("plugins/")).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _packages(module: str) -> Iterator[str]:
    """Yield the package of *module*, and those around it, except for the outermost one."""
    package = module.rpartition(".")[0]
    yield package
    while "." in (package := package.rpartition(".")[0]):
        yield package


def _covers(test: pytest.Item, module: str) -> bool:
    """Return whether *test* has a marker for *module* or for a package of it."""
    covered = {package for marker in test.iter_markers("covers") for package in marker.args}
    return not covered.isdisjoint([module, *_packages(module)])


def mirror(path: str) -> tuple[Path, Path]:
    """Return the path of the test module for the module at *path*, and the next directory that exists."""
    inner = Path(path.removeprefix("nodeagent/").replace("/nodeagent_plugins/", "/"))
    name = inner.parent.name if inner.name == "__init__.py" else inner.stem
    directory = UNIT_TESTS / inner.parent
    while not directory.is_dir():
        name, directory = directory.name, directory.parent
    return directory / f"test_{name.lstrip('_')}.py", directory


def _integration(path: str) -> list[Path]:
    """Return the directories and modules of the integration tests for the module at *path*."""
    prefix = max((prefix for prefix in INTEGRATION if path.startswith(prefix)), key=len)
    return [INTEGRATION_TESTS / name for name in INTEGRATION[prefix]]


def _test_modules(location: Path) -> Iterable[Path]:
    return [location] if location.is_file() else location.rglob("test_*.py")


def _words(path: Path) -> set[str]:
    return {word.removesuffix("s") for name in (path.parent.name, path.stem) for word in name.split("_")} - {"test"}


def _referenced(module: ModuleType) -> Iterator[str]:
    for value in list(vars(module).values()):
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and name != module.__name__ and (_is_project(name) or name.startswith(TEST_MODULES)):
            yield name


def _is_project(name: str) -> bool:
    return name.partition(".")[0] in ("nodeagent", "nodeagent_plugins", "apiserver_stub")
