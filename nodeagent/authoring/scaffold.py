"""Generator of plugin projects: entry point, a hook of each kind, settings, tests, README and license."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from nodeagent import __version__

NAME_RULE = (
    "must consist of 2 to 40 lower case letters, digits and single underscores, start with a letter, end with a letter "
    "or digit, and be neither a Python keyword nor `plugins`"
)
LICENSES = ("Apache-2.0", "MIT", "none")

_NAME = re.compile(r"[a-z](_?[a-z0-9]){1,39}")
_MAX_NAME = 40


class ProjectKind(Enum):
    """Kind of a project; the value is the directory of its templates."""

    MODULE = "module"
    EXTERNAL = "external"


class ScaffoldError(Exception):
    """The project cannot be written; the message contains the reason."""


def check_name(name: str, third_party: frozenset[str] = frozenset()) -> None:
    """Validate the name of a new plugin, which is also used for its module and distribution.

    :param third_party: names of the installed plugins of other distributions; of two with one name, only one is loaded.
    :raises ScaffoldError: the name is invalid or in use.
    """
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME or keyword.iskeyword(name) or name == "plugins":
        raise ScaffoldError(f'invalid plugin name "{name}": {NAME_RULE}')
    if name in third_party:
        raise ScaffoldError(f'plugin name "{name}" is in use by an installed third-party plugin')


def write_project(
    name: str, directory: Path, *, license_name: str = "Apache-2.0", kind: ProjectKind = ProjectKind.MODULE
) -> list[Path]:
    """Write the project of plugin *name* to *directory*, which is created, and return its files.

    :param license_name: one of :data:`LICENSES`.
    :raises ScaffoldError: the directory is not empty, or cannot be written.
    """
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise ScaffoldError(f"{directory} exists and is not an empty directory; specify another with --dir")
        files = {directory / path: text for path, text in _files(name, license_name, kind)}
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ScaffoldError(f"failed to write {directory}: {error.strerror}") from error
    return sorted(files)


def _files(name: str, license_name: str, kind: ProjectKind) -> Iterator[tuple[str, str]]:
    """Yield path and content of each file."""
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
        "license_text": f"{license_name}, see [LICENSE](LICENSE)." if licensed else "No license specified.",
    }
    all_templates = resources.files(__package__) / "templates"
    templates = all_templates / kind.value

    def render(template: Traversable) -> str:
        return Template(template.read_text(encoding="utf-8")).substitute(values)

    yield "pyproject.toml", render(templates / "pyproject.toml.tmpl")
    yield "README.md", render(templates / "README.md.tmpl")
    yield ".gitignore", render(all_templates / "gitignore.tmpl")
    for template in (templates / "package").iterdir():
        yield f"{module}/{template.name.removesuffix('.tmpl')}", render(template)
    yield f"{module}/py.typed", ""
    yield "tests/test_plugin.py", render(templates / "tests" / "test_plugin.py.tmpl")
    if kind is ProjectKind.EXTERNAL:
        yield "nodeagent-plugin.yaml", render(templates / "nodeagent-plugin.yaml.tmpl")
    if licensed:
        yield "LICENSE", render(all_templates / "licenses" / f"{license_name}.tmpl")
