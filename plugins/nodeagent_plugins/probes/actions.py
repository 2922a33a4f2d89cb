"""Carries out one probe of a container: a command, a request, a connection or a health check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodeagent.errors import RuntimeFailure
from nodeagent.model.expansion import expand
from nodeagent.model.pod import Container, ExecAction, HttpGetAction, Probe
from nodeagent.model.ports import port_number
from nodeagent_plugins.probes.grpc import probe_grpc
from nodeagent_plugins.probes.http import probe_http, probe_url
from nodeagent_plugins.probes.outcome import MAX_OUTPUT_BYTES, Outcome, ProbeError, Verdict
from nodeagent_plugins.probes.tcp import probe_tcp

if TYPE_CHECKING:
    from nodeagent.contracts.context import AgentContext


@dataclass(frozen=True, slots=True)
class Target:
    """The container to probe; *pod_ip* is where it listens unless the probe names a host."""

    container: Container
    container_id: str
    pod_ip: str


class Actions:
    """Carries out probes. Every call is bounded by the probe's timeout."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._time_limit_counts = context.gates.enabled("ExecProbeTimeout")

    async def run(self, probe: Probe, target: Target) -> Outcome:
        """Probe once.

        :raises ProbeError: the probe could not be made; nothing is known about the container.
        """
        seconds = max(probe.timeout_seconds, 1)
        if probe.exec is not None:
            return await self._exec(probe.exec, target, seconds)
        if probe.http_get is not None:
            action = probe.http_get
            url = http_url(action, target)
            return await probe_http(url, [(h.name, h.value) for h in action.http_headers or ()], seconds)
        if probe.tcp_socket is not None:
            host = _host(probe.tcp_socket.host, target)
            return await probe_tcp(host, find_port(probe.tcp_socket.port, target.container), seconds)
        if probe.grpc is not None:
            return await probe_grpc(_host("", target), probe.grpc.port, probe.grpc.service, seconds)
        raise ProbeError(f"missing probe handler for container {target.container.name}")

    async def _exec(self, action: ExecAction, target: Target, seconds: float) -> Outcome:
        command = static_command(action.command or (), target.container)
        try:
            result = await self._context.runtime.exec_sync(target.container_id, command, seconds)
        except TimeoutError:
            if not self._time_limit_counts:
                return Outcome(Verdict.IGNORED)
            return Outcome(Verdict.FAILURE, f'command "{" ".join(command)}" timed out')
        except RuntimeFailure as error:
            raise ProbeError(f"rpc error: {error}") from error
        output = (result.stdout + result.stderr)[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")
        return Outcome(Verdict.SUCCESS if result.exit_code == 0 else Verdict.FAILURE, output)


def static_command(command: Sequence[str], container: Container) -> list[str]:
    """Return *command* with references to variables replaced, as far as the pod itself gives their values."""
    variables = {v.name: v.value for v in container.env or () if v.value_from is None}
    return [expand(part, variables) for part in command]


def http_url(action: HttpGetAction, target: Target) -> str:
    """Return what to request.

    :raises ProbeError: there is no host or no such port.
    """
    host = _host(action.host, target)
    return probe_url(action.scheme, host, find_port(action.port, target.container), action.path)


def find_port(port: int | str, container: Container) -> int:
    """Return the number of *port*, which may be the name of one of the container's.

    :raises ProbeError: there is none of that name, or it is out of range.
    """
    number = port_number(port, container.ports)
    if number is None:
        raise ProbeError(f"couldn't find port: {port} in container {container.name}")
    if not 0 < number < 65536:
        raise ProbeError(f"invalid port number: {number}")
    return number


def _host(given: str, target: Target) -> str:
    if host := given or target.pod_ip:
        return host
    raise ProbeError("the pod has no IP yet")
