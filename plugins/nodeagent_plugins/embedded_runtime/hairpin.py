"""Hairpin traffic: access of a pod to itself through a Service or a host port (spec: config.hairpinMode).

Where the node's firewall processes bridged packets (``bridge-nf-call-iptables``), a packet that is translated to its
sender must leave the bridge by the port it came in, which a bridge does not do by default:

- ``hairpin-veth``: each pod's port may send packets back;
- ``promiscuous-bridge``: the node receives a copy of every packet and forwards it. Recent kernels, such as 6.18, do not
translate the sender of such copies, so that a pod drops them;
- ``none``: neither.
"""

from __future__ import annotations

PROMISCUOUS_BRIDGE = "promiscuous-bridge"
HAIRPIN_VETH = "hairpin-veth"
NONE = "none"
MODES = (PROMISCUOUS_BRIDGE, HAIRPIN_VETH, NONE)
SET_CALL = "/nodeagent.embedded.v1.Network/SetHairpinMode"
"""gRPC method with the mode as request and an empty response, on the CRI socket."""
_COPY_MARK = 0x0100_0000


def bridge_line(mode: str, bridge: str) -> str:
    """Return the line for ``ip -batch`` that configures the bridge."""
    return f"link set {bridge} promisc {'on' if mode == PROMISCUOUS_BRIDGE else 'off'}\n"


def port_line(mode: str, port: str) -> str:
    """Return the line for ``ip -batch`` that configures the port of a pod."""
    return f"link set {port} type bridge_slave hairpin {'on' if mode == HAIRPIN_VETH else 'off'}\n"


def rules_against_copies(mode: str, table: str, subnet: str, gateway: str, bridge_address: str) -> str:
    """Return the lines for ``nft -f`` that prevent duplicate packets between two pods.

    A promiscuous bridge also passes packets to the node that it has delivered to another pod, and the node would
    forward them; only packets back to their sender, which have the gateway's address as source, may leave.
    """
    lines = [f"add table bridge {table}", f"delete table bridge {table}"]
    if mode == PROMISCUOUS_BRIDGE:
        copied = f"ip saddr {subnet} meta pkttype host ether daddr != {bridge_address}"
        sent_on = f"meta mark & {_COPY_MARK:#x} != 0 ip saddr {subnet} ip saddr != {gateway}"
        lines += [
            f"add table bridge {table}",
            f"add chain bridge {table} in {{ type filter hook input priority 0; }}",
            f"add chain bridge {table} out {{ type filter hook output priority 0; }}",
            f"add rule bridge {table} in {copied} meta mark set meta mark | {_COPY_MARK:#x}",
            f"add rule bridge {table} out {sent_on} drop",
        ]
    return "".join(f"{line}\n" for line in lines)
