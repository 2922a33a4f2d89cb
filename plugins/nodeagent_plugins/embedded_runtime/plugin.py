"""Embedded runtime: start the bundled container runtime if no runtime serves the configured endpoint.

Settings, under ``plugins: {embedded_runtime: {…}}``: ``enabled`` turns it on. The runtime is a separate process that
outlives the agent, which uses CRI as with any other runtime. The configuration's ``hairpinMode`` is set in every
embedded runtime, including one that another process started.
spec: card.embedded-runtime, config.containerRuntimeEndpoint, config.hairpinMode
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import AgentContext, ConfigContext
from nodeagent.errors import ConfigError, Problem

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop

NAME = "embedded_runtime"


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "enabled": {"type": "boolean", "description": "Start the runtime if nothing serves at the endpoint."},
            "root": {
                "type": "string",
                "minLength": 1,
                "description": "State directory; by default below the agent's root directory.",
            },
            "runner": {"enum": ["crun", "runc", "own"], "description": "OCI runtime; by default the first that works."},
            "network": {"enum": ["bridge", "host"], "description": "Pod network; by default a bridge where supported."},
            "bridge": {"type": "string", "pattern": "^[a-z][a-z0-9]{0,11}$", "description": "Name of the bridge."},
            "podCIDR": {"type": "string", "description": "Address range of pods until the node has a pod CIDR."},
            "insecureRegistries": {
                "type": "array",
                "items": {"type": "string"},
                "description": "HOST[:PORT] of registries that are accessed without TLS.",
            },
            "cdiSpecDirs": {
                "type": "array",
                "items": {"type": "string", "pattern": "^/"},
                "minItems": 1,
                "description": "Directories of CDI specs, a later one taking precedence; by default /etc/cdi and "
                "/var/run/cdi.",
            },
        },
    }


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, context: ConfigContext) -> None:
    settings = context.plugin_settings.get(NAME, {})
    if not settings.get("enabled"):
        return
    endpoint = config.container_runtime_endpoint
    if not endpoint.startswith("unix:///"):
        rule = "must be a Unix socket, unix:///path, for the embedded runtime to serve at"
        raise ConfigError([Problem("configuration", "containerRuntimeEndpoint", endpoint or None, rule)])
    from nodeagent_plugins.embedded_runtime.supervisor import Supervisor

    root = Path(settings.get("root") or context.root_dir / "embedded-runtime")
    supervisor = Supervisor(endpoint, root, daemon_options(settings, config.hairpin_mode), context.clock)
    context.tasks.start(supervisor.run(), "embedded runtime")


@hookimpl
def nodeagent_provide_background_loops(context: AgentContext) -> Sequence[BackgroundLoop]:
    endpoint = context.config.container_runtime_endpoint
    if not endpoint.startswith("unix:///"):
        return []
    from nodeagent_plugins.embedded_runtime.hairpin_loop import HairpinLoop

    return [HairpinLoop(endpoint, context.config.hairpin_mode, context.clock)]


def daemon_options(settings: Mapping[str, Any], hairpin_mode: str) -> list[str]:
    """Return the command line options that *settings* and the configuration's mode stand for."""
    options = ["--hairpin-mode", hairpin_mode]
    for name, option in (
        ("runner", "--runner"),
        ("network", "--network"),
        ("bridge", "--bridge"),
        ("podCIDR", "--pod-cidr"),
    ):
        if name in settings:
            options += [option, str(settings[name])]
    for registry in settings.get("insecureRegistries", ()):
        options += ["--insecure-registry", str(registry)]
    for directory in settings.get("cdiSpecDirs", ()):
        options += ["--cdi-spec-dir", str(directory)]
    return options
