"""Reload of the configuration on SIGHUP: the changed files are checked, then the process executes itself again.

An invalid configuration is rejected and the previous one stays active. Most errors are found while the agent is still
running. Errors that only a start detects, such as a missing cgroup or kernel setting, make the start fall back to the
previous configuration.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import NoReturn

from nodeagent.base import identity
from nodeagent.base.atomic_file import write_private
from nodeagent.base.structs import Struct
from nodeagent.cli.server_version import query_server_version
from nodeagent.config import names
from nodeagent.config.codec import encode
from nodeagent.config.load import Loaded, load_configuration
from nodeagent.errors import ConfigError, PluginError
from nodeagent.plugin_settings import PluginConfig, load_plugins
from nodeagent.pluginmanager import PluginManager

_log = logging.getLogger("nodeagent")

_PREVIOUS = "NODEAGENT_PREVIOUS_CONFIGURATION"
"""Environment variable for the next process: the directory with the previously active configuration."""
_FALL_BACK = "NODEAGENT_FALL_BACK"
"""Environment variable for the next process: set if it must use the previous configuration."""


class Prepared(Struct, frozen=True):
    """Validated configuration and plugins of a command line."""

    loaded: Loaded
    plugins: PluginManager
    plugin_config: PluginConfig


def prepare(arguments: Sequence[str]) -> Prepared:
    """Load the configuration and the plugins, with all checks that do not require a start.

    :raises ConfigError: the configuration is invalid; contains all problems.
    :raises PluginError: a plugin cannot be loaded.
    """
    loaded = load_configuration(arguments, query_server_version)
    identity.configure(loaded.settings.identity)
    plugins, plugin_config = load_plugins(loaded.settings.plugin_config, loaded.settings.disabled_plugins)
    return Prepared(loaded, plugins, plugin_config)


class Reload:
    """State that is passed from process to process across reloads.

    :param arguments: the flags of the daemon, as specified.
    :param environment: of the process; the variables of this class are removed from it.
    """

    def __init__(self, arguments: Sequence[str], environment: MutableMapping[str, str] = os.environ) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # The default action would terminate the process during startup.
        self._specified = tuple(arguments)
        self._previous = environment.pop(_PREVIOUS, "")
        self._fallen_back = bool(environment.pop(_FALL_BACK, ""))
        self._environment = dict(environment)
        self._next: dict[str, str] | None = None
        self._confirmed = False

    @property
    def arguments(self) -> Sequence[str]:
        """The effective flags: those specified; after a fallback, with the files of the previous configuration."""
        if not self._fallen_back:
            return self._specified
        previous = Path(self._previous)
        files = ("--config", f"{previous}/config.yaml", "--config-dir", "")
        return (*self._specified, *files, "--plugin-config", f"{previous}/plugins.yaml")

    @property
    def pending(self) -> bool:
        """True if the process must execute itself again once the agent has stopped."""
        return self._next is not None

    def confirm(self) -> None:
        """Record that the agent has started with this configuration, which disables the fallback."""
        self._confirmed = True

    def cancel(self) -> None:
        """Cancel a pending reload, because the process is shutting down."""
        self._next = None

    async def prepare(self, active: Prepared) -> bool:
        """Check the current files and store the *active* configuration; return whether the agent must restart."""
        try:
            changed = await asyncio.to_thread(self._check, active)
        except (ConfigError, PluginError) as error:
            for problem in error.problems if isinstance(error, ConfigError) else [error]:
                _log.error("Failed to reload configuration, keeping the previous one", extra={"problem": str(problem)})
            return False
        except OSError as error:
            _log.error("Failed to store the active configuration, reload skipped", extra={"err": str(error)})
            return False
        _log.info("Reloading configuration, pods keep running", extra={"changed": changed})
        self._next = {_PREVIOUS: str(_directory(active))}
        return True

    def fall_back(self) -> bool:
        """Request a start with the previous configuration after a failed one; return whether there is one."""
        if not self._previous or self._fallen_back or self._confirmed:
            return False
        _log.error("Failed to start with the reloaded configuration, restoring the previous one")
        self._next = {_PREVIOUS: self._previous, _FALL_BACK: "yes"}
        return True

    def reexec(self) -> NoReturn:
        """Execute the command line of this process again; the process id remains.

        :raises OSError: the interpreter is missing.
        """
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.execve(sys.executable, sys.orig_argv, {**self._environment, **(self._next or {})})  # noqa: S606  ourselves

    def _check(self, active: Prepared) -> str:
        """Check the files, store the active configuration and return the names of the changed fields.

        :raises ConfigError: the configuration is invalid; contains all problems.
        :raises PluginError: a plugin cannot be loaded.
        :raises OSError: the active configuration cannot be stored.
        """
        new = prepare(self._specified)
        providers = new.loaded.settings.image_credential_provider_config
        if providers:
            from nodeagent.config.credentials import load_credential_providers

            load_credential_providers(providers, new.loaded.gates, assumed=new.loaded.release.assumed)
        directory = _directory(active)
        document = {**active.loaded.provenance.value, "apiVersion": names.native_version(), "kind": names.NATIVE_KIND}
        write_private(directory / "config.yaml", json.dumps(document).encode())
        write_private(directory / "plugins.yaml", json.dumps(active.plugin_config.document).encode())
        old, changed = encode(active.loaded.config), encode(new.loaded.config)
        return ", ".join(name for name in old if old[name] != changed[name]) or "no configuration field"


def _directory(active: Prepared) -> Path:
    """Return the directory for the active configuration."""
    return Path(active.loaded.settings.root_dir) / "configuration-before"
