"""Writes the project of a new plugin: entry point, a hook of each kind, settings, tests, README, licence."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from nodeagent import __version__

NAME_RULE = (
    "a plugin's name has 2 to 40 lower-case letters, digits and single underscores, begins with a letter, ends with a "
    "letter or digit and is no word of Python; it names no plugin that is installed and is not `plugins`"
)
LICENSES = ("Apache-2.0", "MIT", "none")

_NAME = re.compile(r"[a-z](_?[a-z0-9]){1,39}")
_LONGEST = 40


class BadProject(Exception):
    """The project cannot be written; the text says why."""


def check_name(name: str, taken: frozenset[str] = frozenset()) -> None:
    """Refuse what would make no good name of a plugin, of its module and of its distribution.

    :param taken: names of installed plugins; another of the same name would replace it.
    :raises BadProject: with the rule.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST or keyword.iskeyword(name) or name == "plugins":
        raise BadProject(f'"{name}" is no name for a plugin: {NAME_RULE}')
    if name in taken:
        raise BadProject(f'"{name}" is the name of an installed plugin, which it would replace: {NAME_RULE}')


def write_project(name: str, folder: Path, *, license_name: str = "Apache-2.0") -> list[Path]:
    """Write the project of plugin *name* into *folder*, which is made, and return its files.

    :param license_name: one of :data:`LICENSES`.
    :raises BadProject: the folder holds something already, or cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise BadProject(f"{folder} exists and is not an empty directory; name another with --dir")
        files = {folder / path: text for path, text in _files(name, license_name)}
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadProject(f"{folder} cannot be written: {error.strerror}") from error
    return sorted(files)


def _files(name: str, license_name: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file."""
    module = f"nodeagent_{name}"
    distribution = module.replace("_", "-")
    licensed = license_name != "none"
    values = {
        "name": name,
        "module": module,
        "distribution": distribution,
        "title": name.replace("_", " ").capitalize(),
        "version": ".".join(__version__.split(".")[:2]),
        "year": str(datetime.now(UTC).year),
        "license_line": f'license = "{license_name}"\nlicense-files = ["LICENSE"]\n' if licensed else "",
        "license_text": f"{license_name}, see [LICENSE](LICENSE)." if licensed else "Not licensed yet.",
    }
    templates = resources.files(__package__) / "templates"

    def filled(template: Traversable) -> str:
        return Template(template.read_text(encoding="utf-8")).substitute(values)

    yield "pyproject.toml", filled(templates / "pyproject.toml.tmpl")
    yield "README.md", filled(templates / "README.md.tmpl")
    yield ".gitignore", filled(templates / "gitignore.tmpl")
    yield f"{module}/__init__.py", filled(templates / "package" / "__init__.py.tmpl")
    yield f"{module}/py.typed", ""
    yield "tests/test_plugin.py", filled(templates / "tests" / "test_plugin.py.tmpl")
    if licensed:
        yield "LICENSE", filled(templates / "licenses" / f"{license_name}.tmpl")
