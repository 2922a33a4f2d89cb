"""Container runtime checks: availability, version, cgroup driver and pod network."""

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
    checks = RuntimeChecks(context)
    return (
        NodeCheck("runtime", checks.available),
        NodeCheck("cgroup driver", checks.cgroup_driver),
        NodeCheck("pod network", checks.network),
    )


class RuntimeChecks:
    """Checks the configured runtime; only ``runtime`` reports an unavailable one."""

    def __init__(self, context: ImageContext) -> None:
        self._context = context

    async def available(self) -> Sequence[Finding]:
        endpoint = self._context.config.container_runtime_endpoint or "the runtime"
        try:
            version = await self._context.runtime.version()
            conditions = (await self._context.runtime.status()).conditions
        except RuntimeFailure as error:
            remedy = "start it (`systemctl start containerd`), or correct containerRuntimeEndpoint"
            return [problem(f"{endpoint} does not respond: {error}", remedy)]
        found = []
        if version.api_version != API_VERSION:
            text = f"{version.name} {version.version} implements CRI {version.api_version or 'without version'}"
            found.append(
                problem(f"{text}; the agent requires {API_VERSION}", "upgrade the runtime (containerd 1.6 or later)")
            )
        for condition in conditions:
            if condition.type == "RuntimeReady" and not condition.status:
                text = f"the runtime is not ready: {condition.reason} {condition.message}"
                found.append(problem(text, "check the log of the runtime (`journalctl -u containerd`)"))
        return found

    async def cgroup_driver(self) -> Sequence[Finding]:
        context = self._context
        configured = context.config.cgroup_driver
        try:
            reported = await context.runtime.cgroup_driver()
            if not reported and isinstance(context.runtime, RuntimeInfoProvider):
                reported = driver_of(_parsed(await context.runtime.info()))
        except RuntimeFailure as error:
            raise CheckInconclusive from error
        if not reported or reported == configured or context.gates.enabled("NodeAgentCgroupDriverFromCRI"):
            return []
        text = f"the agent uses cgroup driver {configured}, the runtime {reported}"
        return [problem(text, f"set cgroupDriver: {reported}, or SystemdCgroup in the runtime's configuration")]

    async def network(self) -> Sequence[Finding]:
        context = self._context
        try:
            conditions = (await context.runtime.status()).conditions
            setup = _parsed(await context.runtime.info()) if isinstance(context.runtime, RuntimeInfoProvider) else {}
        except RuntimeFailure as error:
            raise CheckInconclusive from error
        bad = next((c for c in conditions if c.type == "NetworkReady" and not c.status), None)
        if bad is None:
            return []
        cni = setup.get("cni") or {}
        configured = Path(cni.get("confDir") or "/etc/cni/net.d")
        executables = Path((cni.get("binDirs") or [cni.get("binDir")])[0] or "/opt/cni/bin")
        missing = [str(path) for path in (configured, executables) if not _holds_something(path)]
        where = f"; missing in {' and '.join(missing)}" if missing else ""
        remedy = f"install a network plugin: its configuration in {configured}, its executables in {executables}"
        return [problem(f"no pod network: {bad.message or bad.reason}{where}", remedy)]


def driver_of(setup: Mapping[str, Any]) -> str:
    """Return the cgroup driver in the verbose status of containerd; empty if it is missing."""
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
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _holds_something(path: Path) -> bool:
    try:
        return any(path.iterdir())
    except OSError:
        return False
