"""Pod network: a bridge on the node with an address per sandbox, or the host network."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import commands, hairpin
from nodeagent_plugins.embedded_runtime.errors import CallError, FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.host import find_executable

_log = logging.getLogger(__name__)
DEFAULT_SUBNET = "10.88.64.0/20"
DEFAULT_BRIDGE = "nodeagent0"
_PORT_MAP = "type inet_proto . inet_service : ipv4_addr . inet_service;"
_SELF_SET = "type ipv4_addr . ipv4_addr;"
_ALIAS = "pods of nodeagent's embedded runtime"
_PORT_OF_POD = re.compile(r"^\d+: (na[0-9a-f]{11})@", re.MULTILINE)
_ADDRESS = re.compile(r"link/ether ((?:[0-9a-f]{2}:){5}[0-9a-f]{2})")
_PROTOCOLS = {cri.TCP: "tcp", cri.UDP: "udp"}


class HostNetwork:
    """Pods share the host network, if privileges or tools for another one are missing."""

    own = False

    async def prepare(self) -> None:
        """Do nothing."""

    async def adopt(self) -> None:
        """Do nothing."""

    async def set_hairpin_mode(self, _mode: str) -> None:
        """Do nothing, because there is no bridge."""

    def set_subnet(self, _subnet: str) -> None:
        """Do nothing, because pods have the node's addresses."""

    def occupy(self, _addresses: Iterable[str]) -> None:
        """Do nothing, because pods have the node's addresses."""

    async def attach(self, _sandbox_id: str, _pid: int, ports: Sequence[cri.PortMapping]) -> list[str]:
        """Return the node's address; container ports are ports of the node."""
        for port in ports:
            if port.host_port and port.host_port != port.container_port:
                raise FailedPrecondition(
                    f"host port {port.host_port} cannot be mapped to port {port.container_port}:"
                    " pods share the host network"
                )
        return [node_address()]

    async def detach(self, _addresses: Sequence[str], _ports: Sequence[cri.PortMapping]) -> None:
        """Do nothing."""

    async def remove(self) -> None:
        """Do nothing."""


class BridgeNetwork:
    """Pods have an address each on a bridge; external traffic is masqueraded.

    :param bridge: name of the bridge, created if it does not exist.
    :param subnet: subnet of the addresses; the first one is the bridge's.
    :param memory: file that stores a subnet set later, which takes precedence over *subnet*.
    :param hairpin_mode: see :mod:`.hairpin`.
    """

    own = True

    def __init__(
        self,
        bridge: str = DEFAULT_BRIDGE,
        subnet: str = DEFAULT_SUBNET,
        hairpin_mode: str = hairpin.PROMISCUOUS_BRIDGE,
        memory: Path | None = None,
    ) -> None:
        self._memory = memory
        self._bridge, self._subnet, self._hairpin_mode = bridge, ipaddress.IPv4Network(subnet), hairpin_mode
        if (kept := self._kept_subnet()) is not None:
            self._subnet = kept
        self._taken: set[str] = set()
        self._ip, self._nsenter, self._nft = find_executable("ip"), find_executable("nsenter"), find_executable("nft")
        self._prepared: asyncio.Task[None] | None = None
        self._applying = asyncio.Lock()

    def set_subnet(self, subnet: str) -> None:
        """Use *subnet* if it is an IPv4 subnet and no pod has an address yet."""
        try:
            network = ipaddress.ip_network(subnet.partition(",")[0])
        except ValueError as error:
            raise InvalidArgument(f'pod network "{subnet}": {error}') from error
        if isinstance(network, ipaddress.IPv4Network) and not self._taken and network != self._subnet:
            self._keep_subnet(network)
            self._subnet, self._prepared = network, None

    def _keep_subnet(self, subnet: ipaddress.IPv4Network) -> None:
        if self._memory is not None:
            new = self._memory.with_suffix(".new")
            new.write_text(f"{subnet}\n")
            new.replace(self._memory)

    def _kept_subnet(self) -> ipaddress.IPv4Network | None:
        if self._memory is None:
            return None
        try:
            return ipaddress.IPv4Network(self._memory.read_text().strip())
        except FileNotFoundError:
            return None
        except ValueError as error:
            _log.warning("Failed to read stored pod subnet", extra={"path": str(self._memory), "err": str(error)})
            return None

    async def adopt(self) -> None:
        """Configure an existing bridge and its ports, which an earlier release may have created."""
        if _is_device(self._bridge):
            try:
                await asyncio.to_thread(self._ignore_advertisements)
                await self._drop_loopback_packets()
                await self._apply_hairpin_mode()
            except CallError as error:
                _log.warning("Failed to configure existing bridge", extra={"err": str(error)})

    async def set_hairpin_mode(self, mode: str) -> None:
        """Change the mode, also for running pods.

        :raises InvalidArgument: the mode is unknown.
        :raises CallError: the bridge or a port cannot be changed.
        """
        if mode not in hairpin.MODES:
            raise InvalidArgument(f'hairpin mode "{mode}": must be one of {", ".join(hairpin.MODES)}')
        if mode == self._hairpin_mode:
            return
        _log.info("Changing hairpin mode", extra={"mode": mode, "before": self._hairpin_mode})
        before, self._hairpin_mode = self._hairpin_mode, mode
        try:
            if _is_device(self._bridge):
                await self._apply_hairpin_mode()
        except CallError:
            self._hairpin_mode = before  # So that the next call retries.
            raise

    def occupy(self, addresses: Iterable[str]) -> None:
        """Reserve the addresses of running sandboxes."""
        self._taken.update(addresses)

    async def attach(self, sandbox_id: str, pid: int, ports: Sequence[cri.PortMapping]) -> list[str]:
        """Assign an address to the sandbox with the namespaces of the process *pid*; return it.

        :raises CallError: the network setup failed.
        """
        await self.prepare()
        address = self._take_address()
        try:
            name = f"na{sandbox_id[:11]}"
            gateway, bits, mode = self._gateway, self._subnet.prefixlen, self._hairpin_mode
            await commands.run(
                [self._ip, "-batch", "-"],
                "connect the sandbox",
                given=f"link add {name} type veth peer name eth0 address {_hardware_address(address)} netns {pid}\n"
                f"link set {name} master {self._bridge} up\n" + hairpin.port_line(mode, name),
            )
            if mode != self._hairpin_mode:  # Changed concurrently, possibly without this port.
                await self._apply_hairpin_mode()
            await commands.run(
                [self._nsenter, f"--net=/proc/{pid}/ns/net", self._ip, "-batch", "-"],
                f"assign address {address}",
                given=f"addr add {address}/{bits} dev eth0\nlink set eth0 up\nroute add default via {gateway}\n",
            )
            await self._open_ports(address, ports)
        except BaseException:
            self._taken.discard(address)
            raise
        return [address]

    async def detach(self, addresses: Sequence[str], ports: Sequence[cri.PortMapping]) -> None:
        """Release the addresses and close the ports; the link is removed with the network namespace."""
        self._taken.difference_update(addresses)
        for port in ports:
            if port.host_port and self._nft:
                key = f"{_PROTOCOLS.get(port.protocol)} . {port.host_port}"
                with contextlib.suppress(CallError):  # It may never have been opened.
                    await commands.run(
                        [self._nft, f"delete element ip {self._table} ports {{ {key} }}"], "close a port"
                    )
        if self._nft and any(port.host_port for port in ports):
            for address in addresses:
                with contextlib.suppress(CallError):
                    key = f"{address} . {address}"
                    await commands.run(
                        [self._nft, f"delete element ip {self._table} themselves {{ {key} }}"], "remove a pod"
                    )

    async def remove(self) -> None:
        """Remove the bridge and its rules, if a runtime created the bridge; there must be no pods."""
        # Not read from /sys, which may be that of another network namespace.
        try:
            known = await commands.run([self._ip, "link", "show", self._bridge], "inspect the bridge of pods")
        except CallError:
            return
        if f"alias {_ALIAS}" not in known:
            return
        with contextlib.suppress(CallError):  # A remaining bridge is harmless, and adopted by the next start.
            await commands.run([self._ip, "link", "delete", self._bridge], "remove the bridge of pods")
            if self._nft:
                rules = "".join(
                    f"add table {kind} {self._table}\ndelete table {kind} {self._table}\n" for kind in ("ip", "bridge")
                )
                await commands.run([self._nft, "-f", "-"], "remove the rules of pods", given=rules)

    # --- helpers ----------------------------------------------------------------------------------------------

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
        """Create the bridge once, and again if it was deleted; concurrent sandbox starts wait for it."""
        made = self._prepared
        if made is None or (made.done() and (made.exception() is not None or not _is_device(self._bridge))):
            made = self._prepared = asyncio.create_task(self._make_bridge(), name="bridge")
        await asyncio.shield(made)

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
        await asyncio.to_thread(self._ignore_advertisements)
        await self._apply_hairpin_mode()
        try:
            await asyncio.to_thread(Path("/proc/sys/net/ipv4/ip_forward").write_text, "1")
            await self._drop_loopback_packets()
            await self._masquerade()
        except (OSError, CallError) as error:
            _log.warning("Failed to set up masquerading, no external traffic from pods", extra={"err": str(error)})

    def _ignore_advertisements(self) -> None:
        """Ignore router advertisements of pods, which could redirect the IPv6 traffic of the node to a pod."""
        with contextlib.suppress(FileNotFoundError):  # A kernel without IPv6.
            Path(f"/proc/sys/net/ipv6/conf/{self._bridge}/accept_ra").write_text("0")

    async def _drop_loopback_packets(self) -> None:
        """Drop packets from pods to or from loopback addresses, which ``route_localnet`` accepts."""
        if not self._nft:
            return  # Then it is not set either.
        table = self._table
        # The priority is that before conntrack, which restores the addresses of responses.
        rules = f"add table ip {table}\nadd chain ip {table} raw {{ type filter hook prerouting priority -300; }}\n"
        rules += f"flush chain ip {table} raw\n"
        for side in ("saddr", "daddr"):
            rules += f"add rule ip {table} raw iifname {self._bridge} ip {side} 127.0.0.0/8 drop\n"
        await commands.run([self._nft, "-f", "-"], "drop loopback packets of pods", given=rules)

    async def _apply_hairpin_mode(self) -> None:
        # Serialized, and each with the current mode, so that the last requested mode is applied last.
        async with self._applying:
            mode = self._hairpin_mode
            # Links are not read or written in /sys, which may be that of another network.
            output = await commands.run([self._ip, "-o", "link", "show", self._bridge], "inspect the bridge of pods")
            found = _ADDRESS.search(output)
            if found is None:
                raise CallError(f"{self._bridge} has no hardware address")
            # Without a fixed address, a bridge uses that of one of its ports, and changes it when that port is removed.
            lines = f"link set {self._bridge} address {found[1]}\n{hairpin.bridge_line(mode, self._bridge)}"
            await commands.run([self._ip, "-batch", "-"], "set the hairpin mode of the bridge", given=lines)
            try:
                await self._keep_copies_away(mode, found[1])
            except CallError as error:
                if mode == hairpin.PROMISCUOUS_BRIDGE:
                    _log.warning("Packets between pods may arrive twice", extra={"err": str(error)})
            await self._set_ports(mode)

    async def _keep_copies_away(self, mode: str, address: str) -> None:
        if not self._nft:
            raise CallError("nft is not installed")
        rules = hairpin.rules_against_copies(mode, self._table, str(self._subnet), self._gateway, address)
        await commands.run([self._nft, "-f", "-"], "filter duplicate packets", given=rules)

    async def _set_ports(self, mode: str) -> None:
        ports = await self._ports()
        while ports:
            try:
                lines = "".join(hairpin.port_line(mode, port) for port in ports)
                await commands.run([self._ip, "-batch", "-"], "set the hairpin mode of pods", given=lines)
                return
            except CallError:
                before, ports = ports, await self._ports()
                if set(ports) >= set(before):  # else one went with its pod, and the others are tried again
                    raise

    async def _ports(self) -> list[str]:
        output = await commands.run([self._ip, "-o", "link", "show", "master", self._bridge], "list the links of pods")
        return _PORT_OF_POD.findall(output)

    async def _masquerade(self) -> None:
        if not self._nft:
            raise CallError("nft is not installed")
        table, subnet = self._table, self._subnet
        rules = [f"add table ip {table}", f"add map ip {table} ports {{ {_PORT_MAP} }}"]
        rules.append(f"add set ip {table} themselves {{ {_SELF_SET} }}")
        for chain, hook, priority in (
            ("post", "postrouting", 100),
            ("pre", "prerouting", -100),
            ("out", "output", -100),
        ):
            rules.append(f"add chain ip {table} {chain} {{ type nat hook {hook} priority {priority}; }}")
            rules.append(f"flush chain ip {table} {chain}")
        rules.append(f"add rule ip {table} post ip saddr {subnet} ip daddr != {subnet} masquerade")
        # or a pod that reaches itself would get a packet from its own address, and drop it
        rules.append(f"add rule ip {table} post ip saddr . ip daddr @themselves masquerade")
        rules.append(f"add rule ip {table} post ip saddr 127.0.0.0/8 oifname {self._bridge} masquerade")
        for chain in ("pre", "out"):
            lead = "fib daddr type local dnat ip to meta l4proto . th dport map @ports"
            rules.append(f"add rule ip {table} {chain} {lead}")
        await commands.run([self._nft, "-f", "-"], "set up masquerading", given="\n".join(rules) + "\n")
        local = Path(f"/proc/sys/net/ipv4/conf/{self._bridge}/route_localnet")
        await asyncio.to_thread(local.write_text, "1")  # Required for host ports on the loopback address.

    async def _open_ports(self, address: str, ports: Sequence[cri.PortMapping]) -> None:
        for port in ports:
            if not port.host_port:
                continue
            if port.protocol not in _PROTOCOLS:
                raise FailedPrecondition(f"host port {port.host_port}: only TCP and UDP are supported")
            if port.host_ip not in ("", "0.0.0.0", "::"):  # noqa: S104
                raise FailedPrecondition(f"host port {port.host_port}: host IP {port.host_ip} is not supported")
            element = f"{_PROTOCOLS[port.protocol]} . {port.host_port} : {address} . {port.container_port}"
            rules = (
                f"add element ip {self._table} ports {{ {element} }};"
                f" add element ip {self._table} themselves {{ {address} . {address} }}"
            )
            await commands.run([self._nft or "nft", rules], f"open host port {port.host_port}")


def _is_device(name: str) -> bool:
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def _hardware_address(address: str) -> str:
    """Return the hardware address of the pod with an IPv4 *address*.

    It is the same for every pod with that address, because the host caches it for longer than the address is unused.
    """
    return ":".join(["0a", "58", *(f"{byte:02x}" for byte in ipaddress.IPv4Address(address).packed)])


def node_address() -> str:
    """Return the primary address of the host; the loopback address if there is no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: it only makes the kernel choose
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


Network = HostNetwork | BridgeNetwork
