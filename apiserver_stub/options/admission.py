"""Command-line options for admission (spec: admission.*)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group
from apiserver_stub.plugin_discovery import discover_plugins

TITLE = "Admission"


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class AdmissionOptions:
    """Values of the command-line options for admission (spec: admission.*)."""

    admission_control_config_file: Path | None = None
    enable_admission_plugins: tuple[str, ...] = ()
    disable_admission_plugins: tuple[str, ...] = ()
    allow_privileged: bool = False
    default_not_ready_toleration_seconds: int = 300
    default_unreachable_toleration_seconds: int = 300

    @property
    def admission_plugins(self) -> list[str]:
        """Names of the enabled plugins in the order of their execution."""
        on, off = self.enable_admission_plugins, self.disable_admission_plugins
        return [
            name
            for name, plugin in discover_plugins().plugins.items()
            if name in on or (plugin.enabled_by_default and name not in off)
        ]


def declare(group: Group) -> None:
    discovered = discover_plugins()
    group.add("admission-control-config-file", Path, "Configuration of admission plugins.")
    group.add(
        "enable-admission-plugins",
        values.strings,
        f"Plugins to enable in addition to the default plugins: {', '.join(discovered.enabled_by_default)}. "
        f"Also available: {', '.join(discovered.disabled_by_default)}. The order of names does not matter.",
        action=Extend,
    )
    group.add("disable-admission-plugins", values.strings, "Plugins to disable.", action=Extend)
    group.add("allow-privileged", values.boolean, "Allow privileged containers. Default false.")
    for condition in ("not-ready", "unreachable"):
        text = f"Default tolerationSeconds of the {condition} toleration of pods that set none. Default 300."
        group.add(f"default-{condition}-toleration-seconds", values.integer, text)


def check(options: AdmissionOptions) -> Iterator[str]:
    discovered = discover_plugins()
    yield from discovered.errors
    on, off = options.enable_admission_plugins, options.disable_admission_plugins
    for option, names in (("enable", on), ("disable", off)):
        for name in dict.fromkeys(names):
            if name not in discovered.plugins:
                yield f'{option}-admission-plugins plugin "{name}" is unknown'
    if both := [name for name in discovered.plugins if name in on and name in off]:
        yield f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped"


def warnings(options: AdmissionOptions) -> Iterator[str]:
    for name, plugin in discover_plugins().plugins.items():
        if plugin.deprecated and name in options.enable_admission_plugins:
            yield f"{name} admission controller is deprecated. It will be removed in a future version."
