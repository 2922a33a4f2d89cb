"""The network of pods: a bridge on the node with an address for each sandbox, or the node's own network."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import commands
from nodeagent_plugins.embedded_runtime.errors import BadRequest, CallError, Refused
from nodeagent_plugins.embedded_runtime.host import find_program

_log = logging.getLogger(__name__)
DEFAULT_SUBNET = "10.88.64.0/20"
DEFAULT_BRIDGE = "nodeagent0"
_PORT_MAP = "type inet_proto . inet_service : ipv4_addr . inet_service;"
_ALIAS = "pods of nodeagent's embedded runtime"
_PROTOCOLS = {cri.TCP: "tcp", cri.UDP: "udp"}


class HostNetwork:
    """Pods share the node's network: what is left without the right, or the tools, to make another."""

    own = False

    async def prepare(self) -> None:
        """Nothing to do."""

    def set_subnet(self, _subnet: str) -> None:
        """Addresses are the node's."""

    def occupy(self, _addresses: Iterable[str]) -> None:
        """Addresses are the node's."""

    async def attach(self, _sandbox_id: str, _pid: int, ports: Sequence[cri.PortMapping]) -> list[str]:
        """Return the node's address; ports of containers are ports of the node already."""
        for port in ports:
            if port.host_port and port.host_port != port.container_port:
                raise Refused(
                    f"host port {port.host_port} cannot lead to port {port.container_port}:"
                    " pods share the node's network here"
                )
        return [node_address()]

    async def detach(self, _addresses: Sequence[str], _ports: Sequence[cri.PortMapping]) -> None:
        """Nothing to do."""

    async def remove(self) -> None:
        """Nothing was made."""


class BridgeNetwork:
    """Pods have an address each, on a bridge; they reach the world by the node's address.

    :param bridge: name of the bridge, made if it is not there.
    :param subnet: where addresses come from; its first one is the bridge's.
    """

    own = True

    def __init__(self, bridge: str = DEFAULT_BRIDGE, subnet: str = DEFAULT_SUBNET) -> None:
        self._bridge, self._subnet = bridge, ipaddress.IPv4Network(subnet)
        self._taken: set[str] = set()
        self._ip, self._nsenter, self._nft = find_program("ip"), find_program("nsenter"), find_program("nft")
        self._prepared: asyncio.Task[None] | None = None

    def set_subnet(self, subnet: str) -> None:
        """Take addresses from *subnet*, if that is one of version 4 and no pod has an address yet."""
        try:
            wanted = ipaddress.ip_network(subnet.partition(",")[0])
        except ValueError as error:
            raise BadRequest(f'pod network "{subnet}": {error}') from error
        if isinstance(wanted, ipaddress.IPv4Network) and not self._taken and wanted != self._subnet:
            self._subnet, self._prepared = wanted, None

    def occupy(self, addresses: Iterable[str]) -> None:
        """Note addresses of sandboxes that run already."""
        self._taken.update(addresses)

    async def attach(self, sandbox_id: str, pid: int, ports: Sequence[cri.PortMapping]) -> list[str]:
        """Give the sandbox, whose namespaces the process *pid* is in, an address; return it.

        :raises CallError: the network cannot be made.
        """
        await self.prepare()
        address = self._take_address()
        try:
            name = f"na{sandbox_id[:11]}"
            gateway, bits = self._gateway, self._subnet.prefixlen
            await commands.run(
                [self._ip, "-batch", "-"],
                "connect the sandbox",
                given=f"link add {name} type veth peer name eth0 netns {pid}\n"
                f"link set {name} master {self._bridge} up\n",
            )
            await commands.run(
                [self._nsenter, f"--net=/proc/{pid}/ns/net", self._ip, "-batch", "-"],
                f"give the sandbox address {address}",
                given=f"addr add {address}/{bits} dev eth0\nlink set eth0 up\nroute add default via {gateway}\n",
            )
            await self._open_ports(address, ports)
        except BaseException:
            self._taken.discard(address)
            raise
        return [address]

    async def detach(self, addresses: Sequence[str], ports: Sequence[cri.PortMapping]) -> None:
        """Free the addresses and close the ports; the link went with the sandbox's namespace."""
        self._taken.difference_update(addresses)
        for port in ports:
            if port.host_port and self._nft:
                key = f"{_PROTOCOLS.get(port.protocol)} . {port.host_port}"
                with contextlib.suppress(CallError):  # it may never have been opened
                    await commands.run(
                        [self._nft, f"delete element ip {self._table} ports {{ {key} }}"], "close a port"
                    )

    async def remove(self) -> None:
        """Take the bridge and its rules away, if the bridge is one that a runtime of ours made; no pod may be left."""
        # Not read from /sys, which may be that of another network.
        try:
            known = await commands.run([self._ip, "link", "show", self._bridge], "look at the bridge of pods")
        except CallError:
            return
        if f"alias {_ALIAS}" not in known:
            return
        with contextlib.suppress(CallError):  # what stays does no harm, and the next start takes it over
            await commands.run([self._ip, "link", "delete", self._bridge], "remove the bridge of pods")
            if self._nft:
                await commands.run([self._nft, f"delete table ip {self._table}"], "remove the rules of pods")

    # --- inside -----------------------------------------------------------------------------------------------

    @property
    def _gateway(self) -> str:
        return str(self._subnet.network_address + 1)

    @property
    def _table(self) -> str:
        return f"nodeagent_{self._bridge.replace('-', '_')}"

    def _take_address(self) -> str:
        # hosts() is lazy: this stops at the first free one
        for candidate in self._subnet.hosts():
            address = str(candidate)
            if address != self._gateway and address not in self._taken:
                self._taken.add(address)
                return address
        raise CallError(f"no free address in {self._subnet}")

    async def prepare(self) -> None:
        """Make the bridge, once; sandboxes that are started together wait for it."""
        if self._prepared is None or (self._prepared.done() and self._prepared.exception() is not None):
            self._prepared = asyncio.create_task(self._make_bridge(), name="bridge")
        await asyncio.shield(self._prepared)

    async def _make_bridge(self) -> None:
        if not _is_device(self._bridge):
            await commands.run(
                [self._ip, "-batch", "-"],
                "make the bridge of pods",
                given=f'link add {self._bridge} type bridge\nlink set {self._bridge} alias "{_ALIAS}"\n',
            )
        await commands.run(
            [self._ip, "-batch", "-"],
            "prepare the bridge of pods",
            given=f"addr replace {self._gateway}/{self._subnet.prefixlen} dev {self._bridge}\n"
            f"link set {self._bridge} up\n",
        )
        try:
            await asyncio.to_thread(Path("/proc/sys/net/ipv4/ip_forward").write_text, "1")
            await self._masquerade()
        except (OSError, CallError) as error:
            _log.warning("Pods will not reach other machines", extra={"err": str(error)})

    async def _masquerade(self) -> None:
        if not self._nft:
            raise CallError("nft is not installed")
        table, subnet = self._table, self._subnet
        rules = [f"add table ip {table}", f"add map ip {table} ports {{ {_PORT_MAP} }}"]
        for chain, hook, priority in (
            ("post", "postrouting", 100),
            ("pre", "prerouting", -100),
            ("out", "output", -100),
        ):
            rules.append(f"add chain ip {table} {chain} {{ type nat hook {hook} priority {priority}; }}")
            rules.append(f"flush chain ip {table} {chain}")
        rules.append(f"add rule ip {table} post ip saddr {subnet} ip daddr != {subnet} masquerade")
        rules.append(f"add rule ip {table} post ip saddr 127.0.0.0/8 oifname {self._bridge} masquerade")
        for chain in ("pre", "out"):
            lead = "fib daddr type local dnat ip to meta l4proto . th dport map @ports"
            rules.append(f"add rule ip {table} {chain} {lead}")
        await commands.run([self._nft, "-f", "-"], "let pods reach other machines", given="\n".join(rules) + "\n")
        local = Path(f"/proc/sys/net/ipv4/conf/{self._bridge}/route_localnet")
        await asyncio.to_thread(local.write_text, "1")  # or ports of the node would not answer on its loopback

    async def _open_ports(self, address: str, ports: Sequence[cri.PortMapping]) -> None:
        for port in ports:
            if not port.host_port:
                continue
            if port.protocol not in _PROTOCOLS:
                raise Refused(f"host port {port.host_port}: only TCP and UDP can be led to a pod")
            if port.host_ip not in ("", "0.0.0.0", "::"):  # noqa: S104
                raise Refused(
                    f"host port {port.host_port}: leading one address of the node, {port.host_ip}, is not offered"
                )
            element = f"{_PROTOCOLS[port.protocol]} . {port.host_port} : {address} . {port.container_port}"
            command = [self._nft or "nft", f"add element ip {self._table} ports {{ {element} }}"]
            await commands.run(command, f"open host port {port.host_port}")


def _is_device(name: str) -> bool:
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def node_address() -> str:
    """Return the address that this machine shows to others; its loopback one if it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: it only makes the kernel choose
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


Network = HostNetwork | BridgeNetwork
