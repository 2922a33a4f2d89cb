"""Names of struct fields in JSON, and the base class of API types."""

from __future__ import annotations

from typing import Any

import msgspec

# Words that Kubernetes APIs write in capitals unless they start the name.
_CAPITALS = {
    "ip": "IP", "ips": "IPs", "id": "ID", "ipc": "IPC", "pid": "PID", "cidr": "CIDR", "cidrs": "CIDRs",
    "uuid": "UUID", "fqdn": "FQDN", "uri": "URI",
}  # fmt: skip


def wire_name(name: str) -> str:
    """Return the JSON name of a field: ``host_ip`` → ``hostIP``, ``read_only`` → ``readOnly``."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(_CAPITALS.get(word, word.capitalize()) for word in rest)


class WireStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=wire_name, gc=False):
    """Base class of API types: immutable, camelCase in JSON, empty fields omitted.

    Unknown fields are ignored by the decoder; the server keeps them because the agent sends patches.
    """


def to_wire(value: Any) -> Any:
    """Return *value* as dictionaries, lists and scalars, in the shape of its JSON form."""
    return msgspec.to_builtins(value, str_keys=True)
