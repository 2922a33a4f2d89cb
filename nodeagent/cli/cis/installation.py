"""The installation to check: files of the host, the agent's unit and its effective configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from nodeagent.base.gates import FeatureGates
from nodeagent.base.structs import Struct
from nodeagent.cli.cis.host import HostFiles
from nodeagent.cli.cis.units import Unit, command_line, find_agent_unit
from nodeagent.config.flags import Flags, parse
from nodeagent.config.load import load
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.settings import NodeSettings

PROXY_KUBECONFIGS = (
    "/etc/kubernetes/proxy.conf",
    "/etc/kubernetes/kube-proxy.kubeconfig",
    "/var/lib/kube-proxy/kubeconfig",
    "/var/lib/kube-proxy/kubeconfig.conf",
)


class Installation(Struct, frozen=True):
    """Installation of the agent on a host."""

    host: HostFiles
    unit: Unit | None
    overrides_node_name: bool
    """True if ``--hostname-override`` is set."""
    config: NodeAgentConfiguration
    gates: FeatureGates
    settings: NodeSettings

    def configuration_files(self) -> list[str]:
        """Return the configuration file and its drop-ins."""
        files = [self.settings.config] if self.settings.config else []
        return files + (self.host.files(self.settings.config_dir, "*.conf") if self.settings.config_dir else [])

    def proxy_kubeconfigs(self) -> list[str]:
        """Return the existing kubeconfigs of kube-proxy."""
        return [name for name in PROXY_KUBECONFIGS if self.host.exists(name)]

    def proxy_commands(self) -> list[tuple[str, list[str]]]:
        """Return the process directory and the command line of each running kube-proxy."""
        found = []
        for name in self.host.files("/proc", "[0-9]*"):
            if self.host.text(f"{name}/comm").strip() == "kube-proxy":
                found.append((name, self.host.text(f"{name}/cmdline").split("\0")))
        return found


def inspect_installation(root: Path, flags: Flags | None, *, overrides_node_name: bool = False) -> Installation:
    """Read the installation below *root*.

    :param flags: flags of the daemon; ``None`` selects those of the agent's unit.
    :param overrides_node_name: whether *flags* include ``--hostname-override``.
    :raises ConfigError: the configuration is invalid; contains all problems.
    """
    host = HostFiles(root)
    unit = find_agent_unit(host)
    if flags is None:
        arguments = command_line(host, unit)[1:] if unit is not None else []
        flags = parse(arguments[1:] if arguments[:1] == ["run"] else arguments)
        overrides_node_name = any(argument.startswith("--hostname-override") for argument in arguments)
    settings = flags.settings
    located = dataclasses.replace(
        settings, config=_located(host, settings.config), config_dir=_located(host, settings.config_dir)
    )
    loaded = load(dataclasses.replace(flags, settings=located))
    return Installation(host, unit, overrides_node_name, loaded.config, loaded.gates, settings)


def _located(host: HostFiles, name: str) -> str:
    return str(host.path(name)) if name else ""
