"""Coverage map: which unit test modules execute which lines."""

from __future__ import annotations

import subprocess
import sys
from functools import cached_property
from pathlib import Path

import coverage
import pytest

from tests.mutants.sites import PACKAGES, ROOT

UNIT_TESTS = ROOT / "tests" / "unit"
DATA = ROOT / "build" / "mutants" / "coverage.sqlite"


class ContextPlugin:
    """Pytest plugin: measures coverage with the path of the test module as context."""

    def __init__(self, data: Path) -> None:
        sources = [str(ROOT / package) for package in PACKAGES]
        self._coverage = coverage.Coverage(data_file=str(data), source=sources, config_file=False)
        self._coverage.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._coverage.switch_context(str(item.path.relative_to(ROOT)))

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


class CoverageMap:
    """The recorded map."""

    @cached_property
    def _data(self) -> coverage.CoverageData:
        data = coverage.CoverageData(str(DATA))
        data.read()
        return data

    def tests(self, path: str, line: int) -> list[str]:
        """Return the test modules that execute *line* of the module at *path*, the mirrored one first."""
        stem = Path(path).stem
        contexts = set(self._contexts(path).get(line, ())) - {""}
        # A line that runs at import has no context.
        contexts = contexts or {str(test.relative_to(ROOT)) for test in UNIT_TESTS.rglob(f"test_{stem}.py")}
        return sorted(contexts, key=lambda test: (Path(test).stem != f"test_{stem}", test))

    def _contexts(self, path: str) -> dict[int, list[str]]:
        if path not in self._cache:
            self._cache[path] = self._data.contexts_by_lineno(str(ROOT / path))
        return self._cache[path]

    @cached_property
    def _cache(self) -> dict[str, dict[int, list[str]]]:
        return {}


def record() -> None:
    """Run all unit tests with coverage; takes minutes.

    :raises subprocess.CalledProcessError: a test failed: it would also fail with every mutant.
    """
    DATA.parent.mkdir(parents=True, exist_ok=True)
    DATA.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "tests.mutants.coverage_map"], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:], "tests/unit"], plugins=[ContextPlugin(DATA)]))
