"""Levels and versions of the Pod Security Standards, and the policy in a namespace's labels. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from apiserver_stub.admission.pod_security.checks import (
    REPLACES,
    Check,
    Finding,
    Standards,
    Versions,
    baseline,
    restricted,
)
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value
from apiserver_stub.validation.pod_annotations import keys
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

Mode = Literal["enforce", "audit", "warn"]
MODES: tuple[Mode, ...] = ("enforce", "audit", "warn")
LEVELS = ("privileged", "baseline", "restricted")
LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,8})")
EARLY = Standards()
"""Standards of the oldest release."""
_LEVEL_RULE = f"must be one of {', '.join(LEVELS)}"
_VERSION_RULE = 'must be "latest" or "v1.x"'


class Level(Struct, frozen=True):
    """A level of the standards at a version."""

    name: str = "privileged"
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"

    @property
    def is_privileged(self) -> bool:
        return self.name == "privileged"

    def findings(self, pod: Object, identity: Identity, standards: Standards = EARLY) -> list[Finding]:
        """Return the violations of this level by *pod*; versions after that of the server are its own."""
        if self.is_privileged:
            return []
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        findings = (check(metadata, spec) for check in _checks(self.name, self.minor(standards), identity, standards))
        return [finding for finding in findings if finding is not None]

    def minor(self, standards: Standards) -> int:
        match = _VERSION.fullmatch(self.version)
        return min(int(match[1]), standards.minor) if match else standards.minor


Policy = Mapping[Mode, Level]


def name_prefix(identity: Identity) -> str:
    """Return the prefix of the labels of namespaces and of the audit annotations."""
    return identity.label("", "pod-security")


def label(prefix: str, mode: Mode, *, version: bool = False) -> str:
    """Return the namespace label that sets the level, or the version, of *mode*."""
    return f"{prefix}{mode}-version" if version else f"{prefix}{mode}"


def level_problem(text: str) -> str:
    return "" if text in LEVELS else _LEVEL_RULE


def version_problem(text: str) -> str:
    return "" if text == LATEST or _VERSION.fullmatch(text) else _VERSION_RULE


def read_policy(labels: Mapping[str, str], defaults: Policy, prefix: str) -> tuple[dict[Mode, Level], list[Cause]]:
    """Return the policy of a namespace with *labels*, and the errors in these labels.

    An invalid level is replaced by ``restricted`` for enforce and by ``privileged`` for the other modes, an invalid
    version by the latest one.
    """
    policy: dict[Mode, Level] = {}
    causes = []
    for mode in MODES:
        name, version = defaults[mode].name, defaults[mode].version
        given = labels.get(label(prefix, mode))
        if given is not None:
            name = given
            if problem := level_problem(given):
                causes.append(invalid_value(f"metadata.labels[{label(prefix, mode)}]", given, problem))
                name = "restricted" if mode == "enforce" else "privileged"
        given = labels.get(label(prefix, mode, version=True))
        if given is not None:
            version = given
            if problem := version_problem(given):
                causes.append(invalid_value(f"metadata.labels[{label(prefix, mode, version=True)}]", given, problem))
                version = LATEST
        policy[mode] = Level(name, version)
    enforced = labels.get(label(prefix, "enforce"), "")
    if label(prefix, "warn") not in labels and enforced in LEVELS[LEVELS.index(policy["warn"].name) + 1 :]:
        version = policy["warn" if label(prefix, "warn", version=True) in labels else "enforce"].version
        policy["warn"] = Level(enforced, version)  # Warn about violations of the enforced level, too.
    return policy, causes


@cache
def _checks(name: str, minor: int, identity: Identity, standards: Standards) -> list[Check]:
    chosen: dict[str, Versions] = baseline(keys(identity), standards)
    if name == "restricted":
        added = restricted(standards)
        for check, versions in added.items():
            if _as_of(versions, minor) is not None:
                chosen.pop(REPLACES.get(check, ""), None)
        chosen |= added
    current = (_as_of(versions, minor) for versions in chosen.values())
    return [check for check in current if check is not None]


def _as_of(versions: Versions, minor: int) -> Check | None:
    return next((check for first, check in reversed(versions) if first <= minor), None)
