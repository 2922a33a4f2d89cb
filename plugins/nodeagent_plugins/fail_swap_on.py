"""No start while the machine swaps, unless the configuration allows it (spec: config.failSwapOn)."""

from __future__ import annotations

from pathlib import Path

from nodeagent import hookimpl
from nodeagent.base.gates import FeatureGates
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ConfigContext
from nodeagent.errors import ConfigError, Problem

SWAPS = Path("/proc/swaps")


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, context: ConfigContext) -> None:
    refuse_swap(config, context.gates, SWAPS)


def refuse_swap(config: NodeAgentConfiguration, gates: FeatureGates, file: Path) -> None:
    """Check that no swap is on where that matters; in a user namespace the machine's swap is not the agent's affair.

    :param file: the kernel's table of swap areas; without it there is no swap.
    :raises ConfigError: swap is on; each area is named.
    """
    if not config.fail_swap_on or gates.enabled("NodeAgentInUserNamespace"):
        return
    areas = swap_areas(file)
    if areas:
        rule = "running with swap on is not supported: switch swap off, or set failSwapOn to false"
        raise ConfigError([Problem("failSwapOn", area, None, rule) for area in areas])


def swap_areas(file: Path) -> list[str]:
    """Return the files and devices that the kernel swaps to."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line.split()[0] for line in lines[1:] if line.strip()]
