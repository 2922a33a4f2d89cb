"""Whether the container runtime answers, suits the agent and has a network for pods."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nodeagent.contracts.checks import CheckInconclusive, Finding, NodeCheck, problem
from nodeagent.contracts.context import ImageContext
from nodeagent.contracts.runtime import RuntimeInfoProvider
from nodeagent.errors import RuntimeFailure

API_VERSION = "v1"


def checks(context: ImageContext) -> Sequence[NodeCheck]:
    """Return the checks of the runtime."""
    looks = RuntimeChecks(context)
    return (
        NodeCheck("runtime", looks.answers),
        NodeCheck("cgroup driver", looks.cgroup_driver),
        NodeCheck("pod network", looks.network),
    )


class RuntimeChecks:
    """Asks the runtime that the configuration names; what it does not answer is told once, by ``runtime``."""

    def __init__(self, context: ImageContext) -> None:
        self._context = context

    async def answers(self) -> Sequence[Finding]:
        endpoint = self._context.config.container_runtime_endpoint or "the runtime"
        try:
            version = await self._context.runtime.version()
            conditions = await self._context.runtime.status()
        except RuntimeFailure as error:
            remedy = "start it (`systemctl start containerd`), or correct containerRuntimeEndpoint"
            return [problem(f"{endpoint} does not answer: {error}", remedy)]
        found = []
        if version.api_version != API_VERSION:
            text = f"{version.name} {version.version} speaks CRI {version.api_version or 'of no version'}"
            found.append(
                problem(f"{text}; the agent needs {API_VERSION}", "upgrade the runtime (containerd 1.6 or later)")
            )
        for condition in conditions:
            if condition.type == "RuntimeReady" and not condition.status:
                text = f"the runtime is not ready: {condition.reason} {condition.message}"
                found.append(problem(text, "read the runtime's own log (`journalctl -u containerd`)"))
        return found

    async def cgroup_driver(self) -> Sequence[Finding]:
        context = self._context
        wanted = context.config.cgroup_driver
        try:
            told = await context.runtime.cgroup_driver()
            if not told and isinstance(context.runtime, RuntimeInfoProvider):
                told = driver_of(_parsed(await context.runtime.info()))
        except RuntimeFailure as error:
            raise CheckInconclusive from error
        if not told or told == wanted or context.gates.enabled("NodeAgentCgroupDriverFromCRI"):
            return []
        text = f"the agent makes cgroups with {wanted}, the runtime with {told}"
        return [problem(text, f"set cgroupDriver: {told}, or SystemdCgroup in the runtime's configuration; not both")]

    async def network(self) -> Sequence[Finding]:
        context = self._context
        try:
            conditions = await context.runtime.status()
            setup = _parsed(await context.runtime.info()) if isinstance(context.runtime, RuntimeInfoProvider) else {}
        except RuntimeFailure as error:
            raise CheckInconclusive from error
        bad = next((c for c in conditions if c.type == "NetworkReady" and not c.status), None)
        if bad is None:
            return []
        cni = setup.get("cni") or {}
        configured = Path(cni.get("confDir") or "/etc/cni/net.d")
        programs = Path((cni.get("binDirs") or [cni.get("binDir")])[0] or "/opt/cni/bin")
        missing = [str(place) for place in (configured, programs) if not _holds_something(place)]
        where = f"; nothing is in {' and '.join(missing)}" if missing else ""
        remedy = f"install a network plugin: its configuration in {configured}, its programs in {programs}"
        return [problem(f"pods get no network: {bad.message or bad.reason}{where}", remedy)]


def driver_of(setup: Mapping[str, Any]) -> str:
    """Return the cgroup driver in the set-up that containerd tells; empty when it does not say."""
    containerd = setup.get("containerd") or {}
    runtimes = containerd.get("runtimes") or {}
    chosen = runtimes.get(containerd.get("defaultRuntimeName", ""), {})
    options = chosen.get("options") or {}
    if "SystemdCgroup" not in options:
        return ""
    return "systemd" if options["SystemdCgroup"] else "cgroupfs"


def _parsed(info: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        found = json.loads(info.get("config", "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _holds_something(place: Path) -> bool:
    try:
        return any(place.iterdir())
    except OSError:
        return False
