"""How struct fields are spelled on the wire, and the base of every wire type."""

from __future__ import annotations

from typing import Any

import msgspec

# Words that the field's APIs write in capitals unless they open the name.
_CAPITALS = {
    "ip": "IP", "ips": "IPs", "id": "ID", "ipc": "IPC", "pid": "PID", "cidr": "CIDR", "cidrs": "CIDRs",
    "uuid": "UUID", "fqdn": "FQDN", "uri": "URI",
}  # fmt: skip


def wire_name(name: str) -> str:
    """Return the wire's spelling of a field: ``host_ip`` → ``hostIP``, ``read_only`` → ``readOnly``."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(_CAPITALS.get(word, word.capitalize()) for word in rest)


class WireStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=wire_name, gc=False):
    """Base of every wire type: immutable, camelCase outside, empty fields left out.

    Unknown fields are ignored when read; they are never destroyed on the server because the agent sends patches.
    """


def to_wire(value: Any) -> Any:
    """Return *value* as plain dicts, lists and strings, as JSON would carry it."""
    return msgspec.to_builtins(value, str_keys=True)
