"""What lets a pod reach itself through an address of the node or of a service (spec: config.hairpinMode).

Where the firewall of the node looks into bridges (``bridge-nf-call-iptables``), a packet of a pod whose address is
translated to that of the same pod would have to leave by the port it came in, which a bridge does not do by itself:

- ``hairpin-veth``: each port of a pod may send back;
- ``promiscuous-bridge``: the node gets a copy of every packet and sends it itself. Recent kernels, 6.18 for one, do not
  translate the sender of such copies, so that a pod does not take them there;
- ``none``: neither.
"""

from __future__ import annotations

PROMISCUOUS_BRIDGE = "promiscuous-bridge"
HAIRPIN_VETH = "hairpin-veth"
NONE = "none"
MODES = (PROMISCUOUS_BRIDGE, HAIRPIN_VETH, NONE)
SET_CALL = "/nodeagent.embedded.v1.Network/SetHairpinMode"
"""The mode in, nothing out: a call beside those of CRI, over the same socket."""
_COPY_MARK = 0x0100_0000


def bridge_line(mode: str, bridge: str) -> str:
    """Return a line for ``ip -batch`` that gives the bridge the mode."""
    return f"link set {bridge} promisc {'on' if mode == PROMISCUOUS_BRIDGE else 'off'}\n"


def port_line(mode: str, port: str) -> str:
    """Return a line for ``ip -batch`` that gives the port of a pod the mode."""
    return f"link set {port} type bridge_slave hairpin {'on' if mode == HAIRPIN_VETH else 'off'}\n"


def rules_against_copies(mode: str, table: str, subnet: str, gateway: str, bridge_address: str) -> str:
    """Return lines for ``nft -f`` that keep packets between two pods from arriving twice.

    A promiscuous bridge hands the node also what it has just delivered to another pod. The node would send that on;
    only what goes back to its sender, and so bears the address of the gateway by then, may leave.
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
