"""Validation of the configuration."""

from __future__ import annotations

from nodeagent.base.gates import FeatureGates
from nodeagent.base.release import SelectedRelease
from nodeagent.config.codec import Report
from nodeagent.config.rules.check import Check
from nodeagent.config.rules.eviction import check_eviction
from nodeagent.config.rules.managers import check_managers
from nodeagent.config.rules.node import check_node
from nodeagent.config.rules.pods import check_pods
from nodeagent.config.rules.serving import check_serving
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.errors import Problem

_RULES = (check_serving, check_pods, check_node, check_managers, check_eviction)


def validate(
    config: NodeAgentConfiguration, gates: FeatureGates, report: Report, release: SelectedRelease | None = None
) -> list[str]:
    """Report all violations that can be detected without inspecting the host; return warnings."""
    warnings: list[str] = []
    check = Check(config, gates, report, warnings, release or SelectedRelease())
    for rule in _RULES:
        rule(check)
    return warnings


def problems_of(config: NodeAgentConfiguration, gates: FeatureGates, source: str = "configuration") -> list[Problem]:
    """Return the problems of a configuration that was not read from files."""
    problems: list[Problem] = []
    validate(config, gates, lambda path, value, rule: problems.append(Problem(source, path, value, rule)))
    return problems
