"""Options of the CPU and topology manager policies by release (spec: config.cpuManagerPolicyOptions). No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from nodeagent.base.boolean import parse_bool
from nodeagent.base.release import Release
from nodeagent.config.codec import child
from nodeagent.config.rules.check import Check

Stages = tuple[tuple[Release, str], ...]
"""Releases with the feature gate that an option needs from then on; an empty name for a stable option."""

_MIN_NUMA_NODES = 8
_CPU_ALPHA, _CPU_BETA = "CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions"
_CPU_OPTIONS: Mapping[str, Stages] = {
    "full-pcpus-only": ((Release(1, 23), _CPU_BETA), (Release(1, 33), "")),
    "distribute-cpus-across-numa": ((Release(1, 23), _CPU_ALPHA), (Release(1, 33), _CPU_BETA)),
    "align-by-socket": ((Release(1, 25), _CPU_ALPHA),),
    "distribute-cpus-across-cores": ((Release(1, 31), _CPU_ALPHA),),
    "strict-cpu-reservation": ((Release(1, 32), _CPU_ALPHA), (Release(1, 33), _CPU_BETA), (Release(1, 35), "")),
    "prefer-align-cpus-by-uncorecache": (
        (Release(1, 32), _CPU_ALPHA),
        (Release(1, 34), _CPU_BETA),
        (Release(1, 36), ""),
    ),
}
_EXCLUSIVE = (
    *combinations(
        ("distribute-cpus-across-cores", "distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"), 2
    ),
    ("full-pcpus-only", "distribute-cpus-across-cores"),
)
"""Pairs of options that cannot be enabled together."""
_TOPOLOGY_BETA = "TopologyManagerPolicyBetaOptions"
_TOPOLOGY_OPTIONS: Mapping[str, Stages] = {
    "prefer-closest-numa-nodes": ((Release(1, 28), _TOPOLOGY_BETA), (Release(1, 32), "")),
    "max-allowable-numa-nodes": ((Release(1, 31), _TOPOLOGY_BETA), (Release(1, 35), "")),
}


def check_cpu_options(check: Check) -> None:
    """Check ``cpuManagerPolicyOptions``."""
    path, options = "cpuManagerPolicyOptions", check.config.cpu_manager_policy_options
    for name in _available(check, path, options, _CPU_OPTIONS):
        _check_flag(check, child(path, name), options[name])
    for one, other in _EXCLUSIVE:
        if parse_bool(options.get(one, "")) and parse_bool(options.get(other, "")):
            check.report(child(path, one), options[one], f"cannot be used at the same time as {other}")
    if parse_bool(options.get("align-by-socket", "")) and check.config.topology_manager_policy == "single-numa-node":
        rule = "cannot be combined with topologyManagerPolicy single-numa-node"
        check.report(f"{path}.align-by-socket", options["align-by-socket"], rule)


def check_topology_options(check: Check) -> None:
    """Check ``topologyManagerPolicyOptions``."""
    path, options = "topologyManagerPolicyOptions", check.config.topology_manager_policy_options
    for name in _available(check, path, options, _TOPOLOGY_OPTIONS):
        if name != "max-allowable-numa-nodes":
            _check_flag(check, child(path, name), options[name])
            continue
        number = int(options[name]) if options[name].isascii() and options[name].isdigit() else 0
        if number < _MIN_NUMA_NODES:
            check.report(child(path, name), options[name], f"must be an integer of at least {_MIN_NUMA_NODES}")
        elif number > _MIN_NUMA_NODES:
            check.warnings.append(
                f"{child(path, name)}: more than {_MIN_NUMA_NODES} NUMA nodes are not recommended, because the number "
                "of combinations to compare for each pod doubles with every node"
            )


def _available(check: Check, field: str, options: Mapping[str, str], known: Mapping[str, Stages]) -> list[str]:
    """Report unknown options and options of disabled groups; return the names of the known ones."""
    found = []
    for name, text in options.items():
        path = child(field, name)
        stages = known.get(name)
        if stages is None:
            check.report(path, text, f"is not a known option; supported: {', '.join(known)}")
            continue
        found.append(name)
        reached = [gate for since, gate in stages if since <= check.release.release]
        gate = reached[-1] if reached else ""
        if reached and (not gate or check.gates.enabled(gate)):
            continue
        if check.release.assumed and len(reached) < len(stages):  # The API server may turn out to have it.
            check.warnings.append(f"{path} is for nodes of release {stages[len(reached)][0]} or later")
        elif reached:
            check.report(path, text, f"needs the feature gate {gate}")
        else:
            check.report(path, text, f"needs release {stages[0][0]} (--compatibility-version)")
    return found


def _check_flag(check: Check, path: str, text: str) -> None:
    if parse_bool(text) is None:
        check.report(path, text, 'must be "true" or "false"')
