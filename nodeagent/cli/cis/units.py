"""Unit files of systemd: the files of a unit, its settings and the command line that it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nodeagent.base.structs import Struct
from nodeagent.cli.cis.host import HostFiles
from nodeagent.cli.unit_words import split_words

DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""Directories with unit files; the first one has the highest precedence."""
AGENT_UNITS = ("nodeagent.service", "kubelet.service")
_PREFIXES = "@-:+!"
"""Characters before the executable in ``ExecStart=``."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Unit(Struct, frozen=True):
    """Unit with its drop-ins."""

    name: str
    files: tuple[str, ...]
    """The unit file and the drop-ins, in the order in which they apply."""
    settings: Mapping[str, tuple[str, ...]]
    """Values of each setting of the section ``[Service]``; an empty assignment clears the earlier ones."""

    def words(self, setting: str) -> list[str]:
        """Return the words of all values of *setting*."""
        return [word for value in self.settings.get(setting, ()) for word in value.split()]


def find_agent_unit(host: HostFiles) -> Unit | None:
    """Return the unit of the agent that is enabled, else the first one that is installed."""
    installed = [unit for name in AGENT_UNITS if (unit := read_unit(host, name)) is not None]
    for unit in installed:
        if host.path(f"/etc/systemd/system/multi-user.target.wants/{unit.name}").exists():
            return unit
    return next(iter(installed), None)


def read_unit(host: HostFiles, name: str) -> Unit | None:
    """Return the unit *name*, ``None`` if it is not installed."""
    found = next((f"{path}/{name}" for path in DIRECTORIES if host.exists(f"{path}/{name}")), None)
    if found is None:
        return None
    drop_ins: dict[str, str] = {}
    for directory in DIRECTORIES:
        for file in host.files(f"{directory}/{name}.d", "*.conf"):
            drop_ins.setdefault(file.rpartition("/")[2], file)
    files = (found, *(drop_ins[key] for key in sorted(drop_ins)))
    settings: dict[str, tuple[str, ...]] = {}
    for file in files:
        for key, value in _assignments(host.text(file)):
            settings[key] = (*settings.get(key, ()), value) if value else ()
    return Unit(name, files, settings)


def command_line(host: HostFiles, unit: Unit) -> list[str]:
    """Return the executable and the arguments that *unit* starts, with the variables of its environment."""
    commands = unit.settings.get("ExecStart", ())
    if not commands:
        return []
    environment = _environment(host, unit)
    words: list[str] = []
    for word in split_words(commands[-1].lstrip(_PREFIXES)):
        if re.fullmatch(r"\$\w+", word):
            words += environment.get(word[1:], "").split()
        else:
            words.append(_VARIABLE.sub(lambda match: environment.get(match[1], ""), word))
    return words


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the assignments of the section ``[Service]``."""
    section = ""
    for raw in text.replace("\\\n", " ").splitlines():
        line = raw.strip()
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line:
            key, _, value = line.partition("=")  # That of a comment is not the name of a setting.
            yield key.strip(), value.strip()


def _environment(host: HostFiles, unit: Unit) -> dict[str, str]:
    """Return the variables of ``Environment=``, then those of ``EnvironmentFile=``, which take precedence."""
    environment: dict[str, str] = {}
    for value in unit.settings.get("Environment", ()):
        environment |= _variables(split_words(value))
    for file in unit.settings.get("EnvironmentFile", ()):
        lines = (line.strip() for line in host.text(file.lstrip("-")).splitlines())
        environment |= _variables([_unquoted(line) for line in lines])
    return environment


def _variables(words: Sequence[str]) -> dict[str, str]:
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def _unquoted(line: str) -> str:
    name, equals, value = line.partition("=")
    return f"{name}{equals}{value[1:-1]}" if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else line
