"""Check of a plugin: a project directory, a package or a single module."""

from __future__ import annotations

import importlib.metadata
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import field

from nodeagent.authoring.check_blocking import check_blocking
from nodeagent.authoring.check_hooks import check_hooks, check_settings
from nodeagent.authoring.check_imports import check_imports
from nodeagent.authoring.check_loading import check_loading
from nodeagent.authoring.findings import Finding, Rule
from nodeagent.authoring.source import Module, read_module
from nodeagent.base.structs import MutableStruct
from nodeagent.pluginmanager import GROUP

SLOW_SECONDS = 0.2
"""Default maximum import time; the agent itself starts in less than a second."""

_NO_ENTRY = f'no entry point in group {GROUP}: add [project.entry-points.{GROUP}] with a line NAME = "MODULE"'
_SOURCE_DIRECTORIES = (".", "src", "python", "lib")


class InvalidPluginPath(Exception):
    """The path contains nothing to check; the message contains the reason."""


class Plugin(MutableStruct):
    """A plugin to check.

    :ivar entries: ``module[:object]`` of each entry point, by name; ``None`` outside a project.
    :ivar lines: line numbers of the entry points in ``pyproject.toml``, by name.
    :ivar entry_files: file of each entry point, by ``module[:object]``.
    :ivar files: all Python files of the plugin's packages.
    :ivar paths: directories for ``sys.path``.
    """

    entries: Mapping[str, str] | None
    lines: Mapping[str, int] = field(default_factory=dict)
    entry_files: dict[str, Path] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    def tops(self) -> set[str]:
        """Return the top-level names of the plugin's packages."""
        return {entry.partition(":")[0].partition(".")[0] for entry in self.entry_files}


def check_plugin(path: Path, *, load: bool = True, slow_seconds: float = SLOW_SECONDS) -> list[Finding]:
    """Return the findings for the plugin at *path*, in order of file and line.

    :param path: a directory with ``pyproject.toml``, a package, or a single file.
    :param load: also import it, in a separate process; this runs the plugin's code.
    :param slow_seconds: maximum import time.
    :raises InvalidPluginPath: there is nothing to check.
    """
    findings: list[Finding] = []
    plugin = _find(path, findings)
    modules: list[Module] = []
    for file in plugin.files:
        try:
            modules.append(read_module(file))
        except SyntaxError as error:
            findings.append(Finding(file, error.lineno or 1, Rule.SYNTAX, error.msg))
        except (ValueError, OSError) as error:
            findings.append(Finding(file, 1, Rule.SYNTAX, f"failed to read the file: {error}"))
    findings.extend(_check_source(plugin, modules))
    if load:
        for entry, file in plugin.entry_files.items():
            name = next((name for name, value in (plugin.entries or {}).items() if value == entry), entry)
            loaded = check_loading(name, entry, file, plugin.paths, slow_seconds=slow_seconds, source_findings=findings)
            findings.extend(finding for finding in loaded if finding.rule is not Rule.IMPORT_FAILS or modules)
    ignored = {module.file: module.ignored for module in modules}
    return sorted(f for f in set(findings) if f.rule not in ignored.get(f.file, {}).get(f.line, ()))


def _check_source(plugin: Plugin, modules: Sequence[Module]) -> Iterator[Finding]:
    own = plugin.tops()
    others = _other_plugins() - own
    yield from check_hooks(modules)
    yield from check_settings(modules, None if plugin.entries is None else plugin.lines)
    for module in modules:
        yield from check_imports(module, own, others)
        yield from check_blocking(module)


def _find(path: Path, findings: list[Finding]) -> Plugin:
    """Return the plugin at *path*; problems with its entry points are added to *findings*.

    :raises InvalidPluginPath: there is nothing to check.
    """
    if path.is_file() and path.suffix == ".py":
        return Plugin(None, entry_files={path.stem: path}, files=[path], paths=[path.parent])
    if not path.is_dir():
        raise InvalidPluginPath(f"invalid path {path}: neither a directory nor a Python file")
    project = path / "pyproject.toml"
    if not project.is_file():
        if not (path / "__init__.py").is_file():
            raise InvalidPluginPath(f"no plugin in {path}: neither pyproject.toml nor __init__.py found")
        return Plugin(None, entry_files={path.name: path / "__init__.py"}, files=_python(path), paths=[path.parent])
    return _find_in_project(path, project, findings)


def _find_in_project(path: Path, project: Path, findings: list[Finding]) -> Plugin:
    try:
        text = project.read_text(encoding="utf-8")
        entries = tomllib.loads(text).get("project", {}).get("entry-points", {}).get(GROUP, {})
    except (OSError, ValueError) as error:
        raise InvalidPluginPath(f"failed to read {project}: {error}") from error
    lines = {name: _line(text, name) for name in entries}
    plugin = Plugin(entries, lines)
    if not entries:
        findings.append(Finding(project, 1, Rule.ENTRY_POINT, _NO_ENTRY))
        plugin.files = [file for file in _python(path) if not _is_auxiliary(file.relative_to(path))]
    for name, entry in entries.items():
        location = _locate(path, entry.partition(":")[0])
        if location is None:
            message = f'entry point "{name}": {entry} not found in this project'
            findings.append(Finding(project, lines[name], Rule.ENTRY_POINT, message))
            continue
        root, file, top = location
        plugin.entry_files[entry] = file
        plugin.paths += [root] if root not in plugin.paths else []
        plugin.files += [one for one in ([top] if top.is_file() else _python(top)) if one not in plugin.files]
    return plugin


def _locate(project: Path, module: str) -> tuple[Path, Path, Path] | None:
    """Return the directory to import from, the module's file, and the file or directory of its top-level package."""
    parts = module.split(".")
    for directory in _SOURCE_DIRECTORIES:
        root = project / directory
        base = root.joinpath(*parts)
        for file in (base / "__init__.py", base.with_suffix(".py")):
            if file.is_file():
                top = root / parts[0]
                return root, file, top if top.is_dir() else file
    return None


def _python(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.py"))


def _is_auxiliary(relative: Path) -> bool:
    """Return whether a file is a test, documentation, a build result or a tool's file, instead of plugin source."""
    return any(part in ("tests", "test", "build", "dist", "docs") or part.startswith(".") for part in relative.parts)


def _line(text: str, name: str) -> int:
    """Return the line number of an entry point in ``pyproject.toml``."""
    group = False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            group = "entry-points" in stripped
        elif group and stripped.partition("=")[0].strip(" \"'") == name:
            return number
    return 1


def _other_plugins() -> set[str]:
    """Return the top-level packages of the installed plugins."""
    return {entry.module.partition(".")[0] for entry in importlib.metadata.entry_points(group=GROUP)}
