"""Tests for source locations of plugins in errors."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path

import pytest

from nodeagent.pluginmanager import source_location
from nodeagent.pluginmanager.source_location import directory_of, error_location, without_own_frames


def raised(tmp_path: Path, name: str, text: str) -> BaseException:
    """Return the error that the function ``run`` of a module raises."""
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("module_of_test", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        module.run()
    except BaseException as error:
        return error.with_traceback(error.__traceback__.tb_next if error.__traceback__ is not None else None)
    raise AssertionError


def test_location_of_a_module_is_its_file_and_line(tmp_path: Path) -> None:
    error = raised(tmp_path, "plugin.py", "def run():\n    int('x')\n")
    assert error_location(error) == " in plugin.py:2"


def test_location_in_a_package_has_its_name_and_is_not_in_a_library(tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf/__init__.py").touch()
    error = raised(tmp_path, "shelf/books.py", "import json\n\ndef run():\n    json.loads('{')\n")
    assert error_location(error) == " in shelf/books.py:4"


def test_error_without_a_traceback_has_no_location() -> None:
    assert error_location(OSError("boom")) == ""
    error = OSError("boom")
    assert without_own_frames(error) is error and error.__traceback__ is None


def test_own_frames_are_removed_from_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def run():\n    inner()\n\ndef inner():\n    int('x')\n"
    error = raised(tmp_path, "plugin/file.py", text)
    assert [frame.name for frame in traceback.extract_tb(without_own_frames(error).__traceback__)] == ["run", "inner"]

    monkeypatch.setattr(source_location, "_OWN_DIRECTORY", tmp_path / "plugin")
    assert error_location(error) == ""
    assert traceback.extract_tb(without_own_frames(error).__traceback__) != [], "only own frames: unchanged"

    def run() -> None:
        raise AssertionError

    caller = raised(tmp_path, "plugin/other.py", "run = None\n\ndef call(): run()\n\nrun = lambda: print(end=1)\n")
    assert isinstance(without_own_frames(caller), TypeError)


@pytest.mark.parametrize(("plugin", "name"), [(Path, "pathlib.py"), (source_location, "source_location.py"), (7, None)])
def test_directory_of_a_plugin_is_that_of_its_class_or_module(plugin: object, name: str | None) -> None:
    found = directory_of(plugin() if plugin is Path else plugin)
    assert (found.name if found is not None else None) == name


def test_directory_of_a_package_is_its_own() -> None:
    import nodeagent.pluginmanager as package

    assert directory_of(package) == Path(package.__file__).parent
