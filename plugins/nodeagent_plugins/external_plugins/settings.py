"""Settings of the plugin: its schema, rules that a schema does not express, and the parsed form. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from msgspec import field

from nodeagent.base.quantity import parse_quantity
from nodeagent.base.structs import Struct
from nodeagent.contracts.cgroups import ProcessLimits
from nodeagent.contracts.settings_check import SettingsProblem

NAME = "external_plugins"
CAPABILITIES = (
    *("admission", "eviction", "container_mutation", "notifications", "node_report", "node_checks", "volumes"),
    *("credentials", "pod_source"),
)
"""Names of the protocol's capabilities in lower case; the protocol is imported only with a configured plugin."""

_NAME = re.compile(r"[a-z](_?[a-z0-9]){0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SOCKET_VARIABLE = "NODEAGENT_PLUGIN_SOCKET"
"""Environment variable with the path of the socket that an executable must serve."""
_MAX_SOCKET_PATH = 107
"""Longest path in bytes to which the kernel can connect."""
_EXECUTABLE_ONLY = ("env", "workingDirectory", "user", "group", "limits", "restart", "logLinesPerSecond")
_TEXT = {"type": "string", "minLength": 1}
_USER = {"type": ["string", "integer"], "minLength": 1, "minimum": 0, "maximum": 2**32 - 2}


def _seconds(low: float, high: float, description: str) -> dict[str, Any]:
    return {"type": "number", "minimum": low, "maximum": high, "description": description}


SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "directory": {
                **_TEXT,
                "description": (
                    "Directory of the sockets of executables. Defaults to a directory below /run/nodeagent, or below "
                    "the root directory if the agent does not run as root."
                ),
            },
            "plugins": {
                "type": "object",
                "description": "Out-of-process plugins by name.",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["capabilities"],
                    "properties": {
                        "command": {
                            "type": "array",
                            "items": {"type": "string"},
                            "minItems": 1,
                            "description": "Executable, an absolute path, and its arguments; the agent starts it.",
                        },
                        "socket": {**_TEXT, "description": "Absolute path of a socket that another process serves."},
                        "capabilities": {
                            "type": "array",
                            "items": {"enum": list(CAPABILITIES)},
                            "minItems": 1,
                            "uniqueItems": True,
                            "description": "Parts of the agent that the plugin may extend.",
                        },
                        "settings": {"type": "object", "description": "Settings that the plugin receives."},
                        "volumeDrivers": {
                            "type": "array",
                            "items": _TEXT,
                            "uniqueItems": True,
                            "description": "Drivers of csi and flexVolume volumes that the plugin sets up.",
                        },
                        "env": {
                            "type": "object",
                            "additionalProperties": {"type": "string"},
                            "description": "Environment variables; the agent's are not inherited, except PATH.",
                        },
                        "workingDirectory": {
                            **_TEXT,
                            "description": "Absolute path. Defaults to the directory of the socket.",
                        },
                        "user": {**_USER, "description": "Name or ID. Defaults to an ID that no other plugin has."},
                        "group": {**_USER, "description": "Name or ID. Defaults to the group of the user."},
                        "limits": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {
                                "memory": {"type": "string", "description": "Quantity. Defaults to 256Mi."},
                                "cpu": {"type": "string", "description": "Quantity of CPUs. Defaults to 1."},
                                "pids": {"type": "integer", "minimum": 1, "description": "Defaults to 128."},
                            },
                        },
                        "restart": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {
                                "initialSeconds": _seconds(0.1, 600, "First delay, doubled after each failure."),
                                "maxSeconds": _seconds(0.1, 3600, "Longest delay."),
                            },
                        },
                        "startSeconds": _seconds(0.1, 300, "Time until the plugin must be registered."),
                        "healthSeconds": _seconds(1, 3600, "Interval of health checks."),
                        "logLinesPerSecond": {"type": "number", "minimum": 1, "maximum": 10000},
                    },
                },
            },
        },
    }
)


DEFAULT_LIMITS = ProcessLimits(memory_bytes=256 * 1024 * 1024, cpu_millis=1000, pids=128)


class ExternalPlugin(Struct, frozen=True, kw_only=True):
    """Settings of one out-of-process plugin."""

    name: str
    capabilities: frozenset[str]
    command: Sequence[str] = ()
    socket: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    volume_drivers: frozenset[str] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = ""
    user: str | int | None = None
    group: str | int | None = None
    limits: ProcessLimits = DEFAULT_LIMITS
    restart_seconds: float = 1.0
    max_restart_seconds: float = 60.0
    start_seconds: float = 10.0
    health_seconds: float = 10.0
    log_lines_per_second: float = 50.0

    @property
    def origin(self) -> str:
        """The executable or socket, for display."""
        return self.command[0] if self.command else f"unix://{self.socket}"


def parse(settings: Mapping[str, Any]) -> Sequence[ExternalPlugin]:
    """Return the plugins of validated *settings*, in order of name."""
    return [_plugin(name, entry) for name, entry in sorted(settings.get("plugins", {}).items())]


def problems_of(settings: Mapping[str, Any], *, is_root: bool) -> Sequence[SettingsProblem]:
    """Return the violated rules of *settings*, which match the schema.

    :param is_root: whether the agent can change users.
    """
    problems = []
    directory = settings.get("directory")
    if directory is not None and not PurePath(directory).is_absolute():
        problems.append(SettingsProblem("directory", directory, "must be an absolute path"))
    for name, entry in settings.get("plugins", {}).items():
        for problem in _problems(name, entry, is_root=is_root):
            path = f"plugins.{name}{problem.path}"
            problems.append(SettingsProblem(path, problem.value, problem.rule))
    return problems


def _problems(name: str, entry: Mapping[str, Any], *, is_root: bool) -> Iterator[SettingsProblem]:
    if not _NAME.fullmatch(name):
        rule = "must be up to 40 lower case letters, digits and single underscores, starting with a letter"
        yield SettingsProblem("", None, rule)
    command, socket = entry.get("command"), entry.get("socket")
    if (command is None) == (socket is None):
        yield SettingsProblem("", None, "must have either command or socket")
    if command and not PurePath(command[0]).is_absolute():
        yield SettingsProblem(".command[0]", command[0], "must be an absolute path")
    if socket is not None:
        if not PurePath(socket).is_absolute():
            yield SettingsProblem(".socket", socket, "must be an absolute path")
        elif len(socket.encode()) > _MAX_SOCKET_PATH:
            yield SettingsProblem(".socket", socket, f"must not be longer than {_MAX_SOCKET_PATH} bytes")
        for field_name in _EXECUTABLE_ONLY:
            if field_name in entry:
                yield SettingsProblem(f".{field_name}", None, "requires command")
    if ("volumes" in entry["capabilities"]) != bool(entry.get("volumeDrivers")):
        yield SettingsProblem(".volumeDrivers", None, "must be set with the capability volumes, and only with it")
    for variable in entry.get("env", {}):
        if not _VARIABLE.fullmatch(variable) or variable == SOCKET_VARIABLE:
            yield SettingsProblem(".env", variable, f"must be the name of a variable other than {SOCKET_VARIABLE}")
    if (path := entry.get("workingDirectory")) and not PurePath(path).is_absolute():
        yield SettingsProblem(".workingDirectory", path, "must be an absolute path")
    for field_name in ("user", "group"):
        if field_name in entry and not is_root:
            yield SettingsProblem(f".{field_name}", entry[field_name], "requires that the agent runs as root")
    if "group" in entry and "user" not in entry:
        yield SettingsProblem(".group", entry["group"], "requires user")
    yield from _limit_problems(entry.get("limits", {}))
    plugin = _plugin(name, {**entry, "limits": {}})
    if plugin.max_restart_seconds < plugin.restart_seconds:
        rule = f"must not be less than initialSeconds, {plugin.restart_seconds:g}"
        yield SettingsProblem(".restart.maxSeconds", plugin.max_restart_seconds, rule)


def _limit_problems(limits: Mapping[str, Any]) -> Iterator[SettingsProblem]:
    for resource, low, rule in (("memory", 1024 * 1024 * 1000, "at least 1Mi"), ("cpu", 10, "at least 10m")):
        text = limits.get(resource)
        if text is None:
            continue
        try:
            amount = parse_quantity(text).milli_value()
        except ValueError:
            amount = 0
        if amount < low:
            yield SettingsProblem(f".limits.{resource}", text, f"must be a quantity of {rule}")


def _plugin(name: str, entry: Mapping[str, Any]) -> ExternalPlugin:
    limits, restart, default = entry.get("limits", {}), entry.get("restart", {}), DEFAULT_LIMITS
    values: dict[str, Any] = {
        "restart_seconds": restart.get("initialSeconds"),
        "max_restart_seconds": restart.get("maxSeconds"),
        "start_seconds": entry.get("startSeconds"),
        "health_seconds": entry.get("healthSeconds"),
        "log_lines_per_second": entry.get("logLinesPerSecond"),
    }
    return ExternalPlugin(
        name=name,
        capabilities=frozenset(entry["capabilities"]),
        command=tuple(entry.get("command", ())),
        socket=entry.get("socket", ""),
        settings=entry.get("settings", {}),
        volume_drivers=frozenset(entry.get("volumeDrivers", ())),
        environment=entry.get("env", {}),
        working_directory=entry.get("workingDirectory", ""),
        user=entry.get("user"),
        group=entry.get("group"),
        limits=ProcessLimits(
            parse_quantity(limits["memory"]).value() if "memory" in limits else default.memory_bytes,
            parse_quantity(limits["cpu"]).milli_value() if "cpu" in limits else default.cpu_millis,
            limits.get("pids", default.pids),
        ),
        **{key: value for key, value in values.items() if value is not None},
    )
