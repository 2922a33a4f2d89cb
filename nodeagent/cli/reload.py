"""SIGHUP takes over a changed configuration: it is checked, then the program starts anew in its own process.

What is wrong with it leaves the one before in force. Most of that is found while the agent still runs; what only a
start can tell, such as a control group or a kernel setting that is not there, makes the start fall back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from nodeagent.base import identity
from nodeagent.base.tls import write_private
from nodeagent.config import names
from nodeagent.config.codec import encode
from nodeagent.config.load import Loaded, load_configuration
from nodeagent.errors import ConfigError, PluginError
from nodeagent.plugin_settings import load_plugin_settings
from nodeagent.pluginmanager import PluginManager

_log = logging.getLogger("nodeagent")

_BEFORE = "NODEAGENT_CONFIGURATION_BEFORE"
"""Tells a program that starts anew where the configuration is that was in force until then."""
_FALL_BACK = "NODEAGENT_FALL_BACK"
"""Tells it to use that one."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the command line and the files that it names give."""

    loaded: Loaded
    plugins: PluginManager
    settings: dict[str, dict[str, Any]]
    """Of plugins, by name."""


def prepare(arguments: Sequence[str]) -> Prepared:
    """Read and check everything that can be checked without a start.

    :raises ConfigError: with every problem of the configuration.
    :raises PluginError: a plugin cannot be loaded.
    """
    loaded = load_configuration(arguments)
    identity.configure(loaded.settings.identity)
    plugins = PluginManager()
    plugins.load_entry_points(loaded.settings.disabled_plugins)
    return Prepared(loaded, plugins, load_plugin_settings(loaded.settings.plugin_config, plugins))


class Reload:
    """What one run of the program has to know of the one before it and of the one after it.

    :param arguments: the flags of the daemon as given.
    :param environment: of the process; what is meant for this class alone is taken out of it.
    """

    def __init__(self, arguments: Sequence[str], environment: MutableMapping[str, str] = os.environ) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be answered
        self._given = tuple(arguments)
        self._before = environment.pop(_BEFORE, "")
        self._fallen_back = bool(environment.pop(_FALL_BACK, ""))
        self._environment = dict(environment)
        self._next: dict[str, str] | None = None
        self._settled = False

    @property
    def arguments(self) -> Sequence[str]:
        """The flags to use: those given, and after a fall-back the files of the configuration before."""
        if not self._fallen_back:
            return self._given
        before = Path(self._before)
        files = ("--config", f"{before}/config.yaml", "--config-dir", "", "--plugin-config", f"{before}/plugins.yaml")
        return (*self._given, *files)

    @property
    def due(self) -> bool:
        """Whether the program is to start anew when it has ended."""
        return self._next is not None

    def settle(self) -> None:
        """The configuration has proven itself: there is no way back any more."""
        self._settled = True

    def cancel(self) -> None:
        """The program is to end for good."""
        self._next = None

    async def take(self, now: Prepared) -> bool:
        """Check what the files say by now; return whether to start anew with it. *now* is what is in force."""
        try:
            changed = await asyncio.to_thread(self._check, now)
        except (ConfigError, PluginError) as error:
            for problem in error.problems if isinstance(error, ConfigError) else [error]:
                _log.error("Configuration is refused, the one before stays in force", extra={"problem": str(problem)})
            return False
        except OSError as error:
            _log.error("Configuration in force cannot be kept, it stays in force", extra={"err": str(error)})
            return False
        _log.info("Configuration is taken over, the agent starts anew; pods go on", extra={"changed": changed})
        self._next = {_BEFORE: str(_place(now))}
        return True

    def fall_back(self) -> bool:
        """Return whether a start that was refused is to be made again with the configuration before."""
        if not self._before or self._fallen_back or self._settled:
            return False
        _log.error("Configuration is refused, the one before comes back in force")
        self._next = {_BEFORE: self._before, _FALL_BACK: "yes"}
        return True

    def start_anew(self) -> NoReturn:
        """Replace the program in this process by itself; the process id stays.

        :raises OSError: the interpreter is gone.
        """
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.execve(sys.executable, sys.orig_argv, {**self._environment, **(self._next or {})})  # noqa: S606  ourselves

    def _check(self, now: Prepared) -> str:
        """Check the files, keep what is in force, and return the names of the fields that differ.

        :raises ConfigError: with every problem.
        :raises PluginError: a plugin cannot be loaded.
        :raises OSError: what is in force cannot be kept.
        """
        new = prepare(self._given)
        providers = new.loaded.settings.image_credential_provider_config
        if providers:
            from nodeagent.config.credentials import load_credential_providers

            load_credential_providers(providers)
        before = _place(now)
        document = {**now.loaded.provenance.value, "apiVersion": names.native_version(), "kind": names.NATIVE_KIND}
        write_private(before / "config.yaml", json.dumps(document).encode())
        write_private(before / "plugins.yaml", json.dumps({"plugins": now.settings}).encode())
        old, taken = encode(now.loaded.config), encode(new.loaded.config)
        return ", ".join(name for name in old if old[name] != taken[name]) or "nothing that the agent's own fields tell"


def _place(now: Prepared) -> Path:
    """Return the directory that keeps what is in force."""
    return Path(now.loaded.settings.root_dir) / "configuration-before"
