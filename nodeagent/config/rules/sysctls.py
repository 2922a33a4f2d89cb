"""Which sysctls belong to a pod alone, and how ``allowedUnsafeSysctls`` names them."""

from __future__ import annotations

import re

_IPC = (
    "kernel.sem",
    "kernel.shm",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
)
_IPC_PATTERNS = ("kernel.shm*", "kernel.msg*", "kernel.sem*")
_TREES = ("fs.mqueue.", "net.")
_SEGMENT = r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_SEGMENT}(?:[./]{_SEGMENT})*", re.ASCII)
_MAX_LENGTH = 253


def normalize(name: str) -> str:
    """Return *name* with dots between its parts, and slashes for dots inside one: ``net.ipv4.conf.eth0/1.arp_ignore``.

    The first separator of *name* tells which way round it is written.
    """
    first = re.search(r"[./]", name)
    return name.translate(str.maketrans("./", "/.")) if first and first[0] == "/" else name


def check_pattern(text: str) -> str:
    """Return why *text* may not stand in ``allowedUnsafeSysctls``, as a sentence part; empty when it may."""
    name = f"{text[:-1]}0" if text.endswith("*") else text  # a prefix may stop anywhere inside a name
    if len(text) > _MAX_LENGTH or not _NAME.fullmatch(name):
        return "is not the name of a sysctl, nor a prefix of one ending in '*'"
    plain = normalize(text)
    if plain.removesuffix("*") in _IPC or plain.startswith(_TREES):
        return ""
    return f"does not belong to a pod alone, as {', '.join(_IPC_PATTERNS)}, fs.mqueue.* and net.* do"
