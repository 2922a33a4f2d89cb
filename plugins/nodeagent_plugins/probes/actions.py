"""Probe actions: exec, HTTP, TCP and gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent.base.structs import Struct
from nodeagent.errors import RuntimeFailure
from nodeagent.model.expansion import expand
from nodeagent.model.pod import Container, ExecAction, HttpGetAction, Probe
from nodeagent.model.ports import port_number
from nodeagent_plugins.probes.grpc import probe_grpc
from nodeagent_plugins.probes.http import probe_http, probe_url
from nodeagent_plugins.probes.outcome import MAX_OUTPUT_BYTES, Outcome, OutcomeKind, ProbeError
from nodeagent_plugins.probes.tcp import probe_tcp

if TYPE_CHECKING:
    from nodeagent.contracts.context import PullerContext


class Target(Struct, frozen=True):
    """Container to probe; *pod_ip* is the address unless the probe sets a host."""

    container: Container
    container_id: str
    pod_ip: str


class Actions:
    """Executes probe actions. Every call is bounded by the probe's timeout."""

    def __init__(self, context: PullerContext) -> None:
        self._context = context
        self._user_agent = f"kube-probe/{context.release.release}"
        self._time_limit_counts = context.gates.enabled("ExecProbeTimeout")

    async def run(self, probe: Probe, target: Target) -> Outcome:
        """Execute *probe* once.

        :raises ProbeError: the probe could not be executed, so the container's state is unknown.
        """
        seconds = max(probe.timeout_seconds, 1)
        if probe.exec is not None:
            return await self._exec(probe.exec, target, seconds)
        if probe.http_get is not None:
            action = probe.http_get
            url = http_url(action, target)
            headers = [(h.name, h.value) for h in action.http_headers or ()]
            return await probe_http(url, headers, seconds, user_agent=self._user_agent)
        if probe.tcp_socket is not None:
            host = _host(probe.tcp_socket.host, target)
            return await probe_tcp(host, find_port(probe.tcp_socket.port, target.container), seconds)
        if probe.grpc is not None:
            host, port, service = _host("", target), probe.grpc.port, probe.grpc.service
            return await probe_grpc(host, port, service, seconds, user_agent=self._user_agent)
        raise ProbeError(f"missing probe handler for container {target.container.name}")

    async def _exec(self, action: ExecAction, target: Target, seconds: float) -> Outcome:
        command = static_command(action.command or (), target.container)
        try:
            result = await self._context.runtime.exec_sync(target.container_id, command, seconds)
        except TimeoutError:
            if not self._time_limit_counts:
                return Outcome(OutcomeKind.IGNORED)
            return Outcome(OutcomeKind.FAILURE, f'command "{" ".join(command)}" timed out')
        except RuntimeFailure as error:
            raise ProbeError(f"rpc error: {error}") from error
        output = (result.stdout + result.stderr)[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")
        return Outcome(OutcomeKind.SUCCESS if result.exit_code == 0 else OutcomeKind.FAILURE, output)


def static_command(command: Sequence[str], container: Container) -> list[str]:
    """Return *command* with variable references expanded for values that are literals in the pod spec."""
    variables = {v.name: v.value for v in container.env or () if v.value_from is None}
    return [expand(part, variables) for part in command]


def http_url(action: HttpGetAction, target: Target) -> str:
    """Return the URL to request.

    :raises ProbeError: the host or the port is unknown.
    """
    host = _host(action.host, target)
    return probe_url(action.scheme, host, find_port(action.port, target.container), action.path)


def find_port(port: int | str, container: Container) -> int:
    """Return the number of *port*, which can be the name of a container port.

    :raises ProbeError: the container has no such port, or the number is out of range.
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
    raise ProbeError("pod has no IP address yet")
