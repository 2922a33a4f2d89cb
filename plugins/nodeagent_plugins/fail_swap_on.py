"""Swap check at startup (spec: config.failSwapOn)."""

from __future__ import annotations

from pathlib import Path

from nodeagent import hookimpl
from nodeagent.base.gates import FeatureGates
from nodeagent.base.swap import SWAPS, swap_areas
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ConfigContext
from nodeagent.errors import ConfigError, Problem


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, context: ConfigContext) -> None:
    check_swap(config, context.gates, SWAPS)


def check_swap(config: NodeAgentConfiguration, gates: FeatureGates, file: Path) -> None:
    """Check that no swap is enabled; skipped in a user namespace, because swap is a setting of the host.

    :param file: the kernel's list of swap areas; a missing file means no swap.
    :raises ConfigError: swap is enabled; contains an error per area.
    """
    if not config.fail_swap_on or gates.enabled("NodeAgentInUserNamespace"):
        return
    areas = swap_areas(file)
    if areas:
        rule = "running with swap on is not supported: disable swap, or set failSwapOn to false"
        raise ConfigError([Problem("failSwapOn", area, None, rule) for area in areas])
