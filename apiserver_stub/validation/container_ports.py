"""Validation of container ports, and of port numbers and names in general."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_each, invalid_value, not_supported, required
from nodeagent.base.names import port_name_problems

PROTOCOLS = ("SCTP", "TCP", "UDP")
PORT_RANGE_RULE = "must be between 1 and 65535, inclusive"


def validate_port_number(number: int, field: str) -> list[Cause]:
    """Return the error in a port number."""
    return [] if 1 <= number <= 65535 else [invalid_value(field, number, PORT_RANGE_RULE)]


def validate_port_number_or_name(port: int | str, field: str) -> list[Cause]:
    """Return the errors in the number or the name of a port."""
    if isinstance(port, str):
        return invalid_each(field, port, port_name_problems(port))
    return validate_port_number(port, field)


def validate_protocol(protocol: str, field: str) -> list[Cause]:
    """Return the error in the protocol of a port."""
    if protocol in PROTOCOLS:
        return []
    return [not_supported(field, protocol, PROTOCOLS) if protocol else required(field)]


def validate_container_ports(ports: Sequence[Object], field: str) -> list[Cause]:
    """Return the errors in the ports of a container."""
    causes = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"{field}[{index}]"
        if name := port.get("name"):
            if problems := port_name_problems(name):
                causes += invalid_each(f"{path}.name", name, problems)
            elif name in names:
                causes.append(duplicate(f"{path}.name", name))
            else:
                names.add(name)
        if not (number := port.get("containerPort")):
            causes.append(required(f"{path}.containerPort"))
        else:
            causes += validate_port_number(number, f"{path}.containerPort")
        if host_port := port.get("hostPort"):
            causes += validate_port_number(host_port, f"{path}.hostPort")
        causes += validate_protocol(port.get("protocol") or "", f"{path}.protocol")
    return causes


def validate_host_ports(containers: Sequence[Object], field: str) -> list[Cause]:
    """Return an error for every host port that several ports of *containers*, which are at *field*, use."""
    causes = []
    used: set[str] = set()
    for path, port in _ports(containers, field):
        if number := port.get("hostPort"):
            text = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{number}"
            if text in used:
                causes.append(duplicate(f"{path}.hostPort", text))
            used.add(text)
    return causes


def validate_host_network_ports(containers: Sequence[Object], field: str, *, is_pod: bool) -> list[Cause]:
    """Return an error for every port of *containers* with another host port, in a pod on the host's network.

    :param is_pod: the host port must be set, not only in a pod template.
    """
    return [
        invalid_value(
            f"{path}.hostPort", port.get("hostPort") or 0, "must match `containerPort` when `hostNetwork` is true"
        )
        for path, port in _ports(containers, field)
        if (is_pod or port.get("hostPort")) and (port.get("hostPort") or 0) != (port.get("containerPort") or 0)
    ]


def _ports(containers: Sequence[Object], field: str) -> Iterator[tuple[str, Object]]:
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            yield f"{field}[{index}].ports[{number}]", port
