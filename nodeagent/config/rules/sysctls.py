"""Validation of ``allowedUnsafeSysctls``: only namespaced sysctls are allowed."""

from __future__ import annotations

from nodeagent.base.sysctls import normalize_sysctl, sysctl_name_problems

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


def check_pattern(text: str) -> str:
    """Return the rule that *text* violates as an entry of ``allowedUnsafeSysctls``, or the empty string."""
    name = f"{text[:-1]}0" if text.endswith("*") else text  # A prefix may end anywhere in a name.
    if sysctl_name_problems(name):
        return "is not the name of a sysctl, nor a prefix of one ending in '*'"
    plain = normalize_sysctl(text)
    if plain.removesuffix("*") in _IPC or plain.startswith(_TREES):
        return ""
    return f"is not namespaced; only {', '.join(_IPC_PATTERNS)}, fs.mqueue.* and net.* are"
