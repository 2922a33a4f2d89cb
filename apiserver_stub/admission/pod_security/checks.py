"""Checks of the Pod Security Standards, by level and version. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from apiserver_stub.admission.pod_fields import ALL_CONTAINERS
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.validation.pod_annotations import Keys
from nodeagent.base.structs import Struct


class Finding(Struct, frozen=True):
    """A violation of a check: a short reason, and details of the pod."""

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


Check = Callable[[Object, Object], Finding | None]
"""Check of a pod's metadata and spec; returns the violation, or ``None``."""

_CAPABILITIES = frozenset(
    [
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    ]
)
_SELINUX_TYPES = frozenset(["", "container_t", "container_init_t", "container_kvm_t"])
_SELINUX_TYPES_31 = _SELINUX_TYPES | {"container_engine_t"}
_SYSCTLS = frozenset(
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ]
)
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_APPARMOR_TYPES = ("RuntimeDefault", "Localhost")
_PROBES, _HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe"), ("postStart", "preStop")
_VOLUMES = frozenset(
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"]
)
_SECCOMP_TYPES = ("RuntimeDefault", "Localhost")


# Baseline


def app_armor(keys: Keys, metadata: Object, spec: Object) -> Finding | None:
    bad = [
        f'{key}="{value}"'
        for key, value in sorted((metadata.get("annotations") or {}).items())
        if key.startswith(keys.apparmor_prefix)
        and value not in ("", "runtime/default")
        and not str(value).startswith("localhost/")
    ]
    word = _plural("forbidden AppArmor profile", len(bad))
    return Finding(word, ", ".join(bad)) if bad else None


def app_armor_fields(keys: Keys, metadata: Object, spec: Object) -> Finding | None:
    """Check the fields and annotations with AppArmor profiles; for releases that have the fields."""
    values: set[str] = set()

    def is_bad(context: Object) -> bool:
        profile = context.get("appArmorProfile")
        if profile is None or profile.get("type") in _APPARMOR_TYPES:
            return False
        values.add(profile.get("type") or "")
        return True

    setters = [text] if (text := _setters(spec, is_bad)) else []
    annotations = app_armor(keys, metadata, spec)
    bad = sorted(values)
    if annotations is not None:
        bad += annotations.detail.split(", ")
        setters.append(_plural("annotation", annotations.detail.count(", ") + 1))
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(bad)}"
    return Finding(_plural("forbidden AppArmor profile", len(bad)), detail)


def probe_hosts(metadata: Object, spec: Object) -> Finding | None:
    """Check that no probe and no lifecycle handler sets a host, by which the node agent reaches other hosts."""
    bad: set[str] = set()
    hosts: set[str] = set()
    for name, container in _containers(spec):
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(kind) or {} for kind in _PROBES] + [lifecycle.get(kind) or {} for kind in _HANDLERS]
        actions = [handler.get(kind) or {} for handler in handlers for kind in ("httpGet", "tcpSocket")]
        if found := {str(action["host"]) for action in actions if action.get("host")}:
            bad.add(name)
            hosts |= found
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    text = f"{_named(sorted(bad))} {use} {_plural('probe or lifecycle host', len(hosts))} {_quoted(sorted(hosts))}"
    return Finding("probe or lifecycle host", text)


def capabilities(metadata: Object, spec: Object) -> Finding | None:
    added = {name: _capabilities(container, "add") - _CAPABILITIES for name, container in _containers(spec)}
    if not (bad := [name for name, found in added.items() if found]):
        return None
    names = _quoted(sorted(set().union(*added.values())))
    detail = f"{_named(bad)} must not include {names} in securityContext.capabilities.add"
    return Finding("non-default capabilities", detail)


def host_namespaces(metadata: Object, spec: Object) -> Finding | None:
    bad = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Finding("host namespaces", ", ".join(bad)) if bad else None


def host_paths(metadata: Object, spec: Object) -> Finding | None:
    bad = [volume.get("name", "") for volume in spec.get("volumes") or () if volume.get("hostPath") is not None]
    return Finding("hostPath volumes", f"{_plural('volume', len(bad))} {_quoted(bad)}") if bad else None


def host_ports(metadata: Object, spec: Object) -> Finding | None:
    found = {
        name: [str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")]
        for name, container in _containers(spec)
    }
    if not (bad := [name for name, ports in found.items() if ports]):
        return None
    ports = sorted({port for ports in found.values() for port in ports})
    use = "uses" if len(bad) == 1 else "use"
    return Finding("hostPort", f"{_named(bad)} {use} {_plural('hostPort', len(ports))} {', '.join(ports)}")


def privileged(metadata: Object, spec: Object) -> Finding | None:
    bad = [name for name, container in _containers(spec) if _context(container).get("privileged")]
    return Finding("privileged", f"{_named(bad)} must not set securityContext.privileged=true") if bad else None


def proc_mount(metadata: Object, spec: Object) -> Finding | None:
    found = {name: _context(container).get("procMount") for name, container in _containers(spec)}
    bad = [name for name, value in found.items() if value not in (None, "Default")]
    if not bad:
        return None
    values = _quoted(sorted({str(found[name]) for name in bad}))
    return Finding("procMount", f"{_named(bad)} must not set securityContext.procMount to {values}")


def selinux(allowed: frozenset[str], metadata: Object, spec: Object) -> Finding | None:
    types: set[str] = set()
    fields: dict[str, bool] = {}

    def is_bad(context: Object) -> bool:
        chosen = context.get("seLinuxOptions")
        if chosen is None:
            return False
        kind = chosen.get("type") or ""
        if kind not in allowed:
            types.add(kind)
        named = [word for word in ("user", "role") if chosen.get(word)]
        fields.update(dict.fromkeys(named, True))
        return bool(named) or kind not in allowed

    setters = _setters(spec, is_bad)
    if not setters:
        return None
    data = [f"{_plural('type', len(types))} {_quoted(sorted(types))}"] if types else []
    data += [f"{word} may not be set" for word in ("user", "role") if word in fields]
    return Finding("seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")


def seccomp_annotations(keys: Keys, metadata: Object, spec: Object) -> Finding | None:
    """Check the annotations that preceded the field ``seccompProfile``; for versions before 1.19."""
    given = metadata.get("annotations") or {}
    names = [keys.seccomp, *(f"{keys.seccomp_prefix}{name}" for name, _ in _containers(spec))]
    bad = sorted(
        f'{key}="{given[key]}"'
        for key in names
        if key in given
        and given[key] not in ("runtime/default", "docker/default")
        and not given[key].startswith("localhost/")
    )
    return Finding("seccompProfile", f"forbidden {_plural('annotation', len(bad))} {', '.join(bad)}") if bad else None


def seccomp_baseline(metadata: Object, spec: Object) -> Finding | None:
    values: set[str] = set()

    def is_bad(context: Object) -> bool:
        profile = context.get("seccompProfile")
        if profile is None or profile.get("type") in _SECCOMP_TYPES:
            return False
        values.add(profile.get("type") or "")
        return True

    setters = _setters(spec, is_bad)
    if not setters:
        return None
    text = f"{setters} must not set securityContext.seccompProfile.type to {_quoted(sorted(values))}"
    return Finding("seccompProfile", text)


def sysctls(allowed: frozenset[str]) -> Check:
    def check(metadata: Object, spec: Object) -> Finding | None:
        names = [item.get("name", "") for item in dig(spec, ("securityContext", "sysctls")) or ()]
        bad = [name for name in names if name not in allowed]
        return Finding("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def windows_host_process(metadata: Object, spec: Object) -> Finding | None:
    setters = _setters(spec, lambda context: bool(dig(context, ("windowsOptions", "hostProcess"))))
    text = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return Finding("hostProcess", text) if setters else None


# Restricted


def privilege_escalation(metadata: Object, spec: Object) -> Finding | None:
    bad = [
        name
        for name, container in _containers(spec)
        if _context(container).get("allowPrivilegeEscalation") is not False
    ]
    detail = f"{_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Finding("allowPrivilegeEscalation != false", detail) if bad else None


def dropped_capabilities(metadata: Object, spec: Object) -> Finding | None:
    keeping = [name for name, container in _containers(spec) if "ALL" not in _capabilities(container, "drop")]
    added = {name: _capabilities(container, "add") - {"NET_BIND_SERVICE"} for name, container in _containers(spec)}
    adding = [name for name, found in added.items() if found]
    details = []
    if keeping:
        details.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        names = _quoted(sorted(set().union(*added.values())))
        details.append(f"{_named(adding)} must not include {names} in securityContext.capabilities.add")
    return Finding("unrestricted capabilities", "; ".join(details)) if details else None


def volumes(allowed: frozenset[str], metadata: Object, spec: Object) -> Finding | None:
    bad: list[str] = []
    types: set[str] = set()
    for volume in spec.get("volumes") or ():
        kinds = {key for key, value in volume.items() if key != "name" and value is not None}
        if not kinds & allowed:
            bad.append(volume.get("name", ""))
            types |= kinds or {"unknown"}
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    kind = "restricted volume type" if len(types) == 1 else "restricted volume types"
    detail = f"{_plural('volume', len(bad))} {_quoted(bad)} {use} {kind} {_quoted(sorted(types))}"
    return Finding("restricted volume types", detail)


def non_root(metadata: Object, spec: Object) -> Finding | None:
    setters = _setters(spec, lambda context: context.get("runAsNonRoot") is False)
    if setters:
        return Finding("runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false")
    if dig(spec, ("securityContext", "runAsNonRoot")):
        return None
    bad = [name for name, container in _containers(spec) if _context(container).get("runAsNonRoot") is None]
    text = f"pod or {_named(bad)} must set securityContext.runAsNonRoot=true"
    return Finding("runAsNonRoot != true", text) if bad else None


def user(metadata: Object, spec: Object) -> Finding | None:
    setters = _setters(spec, lambda context: context.get("runAsUser") == 0)
    return Finding("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def seccomp_restricted(metadata: Object, spec: Object) -> Finding | None:
    found = seccomp_baseline(metadata, spec)
    if found is not None:
        return found
    if dig(spec, ("securityContext", "seccompProfile")) is not None:
        return None
    bad = [name for name, container in _containers(spec) if _context(container).get("seccompProfile") is None]
    text = f'pod or {_named(bad)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Finding("seccompProfile", text) if bad else None


def not_windows(check: Check) -> Check:
    """Return *check* without Windows pods, whose specs cannot set the checked fields."""

    def checked(metadata: Object, spec: Object) -> Finding | None:
        return None if dig(spec, ("os", "name")) == "windows" else check(metadata, spec)

    return checked


def not_user_namespaced(check: Check) -> Check:
    """Return *check* without pods in a user namespace, whose root has no privileges on the node."""

    def checked(metadata: Object, spec: Object) -> Finding | None:
        return None if spec.get("hostUsers") is False else check(metadata, spec)

    return checked


Versions = tuple[tuple[int, Check], ...]
"""Checks with the first minor version to which each applies, in ascending order."""


class Standards(Struct, frozen=True):
    """Properties of the server on which the checks depend."""

    minor: int = 29
    """Minor release of the server, which is the latest version of the checks."""
    relaxes_user_namespaces: bool = False
    """Some checks of all versions do not apply to pods in a user namespace.

    spec: gate.UserNamespacesPodSecurityStandards
    """


def baseline(keys: Keys, standards: Standards) -> dict[str, Versions]:
    """Return the checks of the level ``baseline``; *keys* are the annotations of the checked pods."""
    profiles = app_armor_fields if standards.minor >= _APPARMOR_FIELDS else app_armor
    return {
        "appArmorProfile": ((0, partial(profiles, keys)),),
        "capabilities_baseline": ((0, capabilities),),
        "hostNamespaces": ((0, host_namespaces),),
        "hostPathVolumes": ((0, host_paths),),
        "hostPorts": ((0, host_ports),),
        "privileged": ((0, privileged),),
        "hostProbesAndHostLifecycle": ((34, probe_hosts),),
        "procMount": ((0, _relaxed(proc_mount, standards)), (35, not_user_namespaced(proc_mount))),
        "seLinuxOptions": ((0, partial(selinux, _SELINUX_TYPES)), (31, partial(selinux, _SELINUX_TYPES_31))),
        "seccompProfile_baseline": ((0, partial(seccomp_annotations, keys)), (19, seccomp_baseline)),
        "sysctls": (
            (0, sysctls(_SYSCTLS)),
            (27, sysctls(_SYSCTLS_27)),
            (29, sysctls(_SYSCTLS_29)),
            (32, sysctls(_SYSCTLS_32)),
        ),
        "windowsHostProcess": ((0, windows_host_process),),
    }


def restricted(standards: Standards) -> dict[str, Versions]:
    """Return the checks that the level ``restricted`` adds."""
    types = _VOLUMES | {"image"} if standards.minor >= _IMAGE_VOLUMES else _VOLUMES
    return {
        "allowPrivilegeEscalation": ((8, privilege_escalation), (25, not_windows(privilege_escalation))),
        "capabilities_restricted": ((22, dropped_capabilities), (25, not_windows(dropped_capabilities))),
        "procMount_restricted": ((35, proc_mount),),
        "restrictedVolumes": ((0, partial(volumes, types)),),
        "runAsNonRoot": ((0, _relaxed(non_root, standards)), (35, not_user_namespaced(non_root))),
        "runAsUser": ((23, _relaxed(user, standards)), (35, not_user_namespaced(user))),
        "seccompProfile_restricted": ((19, seccomp_restricted), (25, not_windows(seccomp_restricted))),
    }


def _relaxed(check: Check, standards: Standards) -> Check:
    return not_user_namespaced(check) if standards.relaxes_user_namespaces else check


_APPARMOR_FIELDS, _IMAGE_VOLUMES = 30, 31
"""First minor releases with fields for AppArmor profiles, and with image volumes."""
REPLACES = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}
"""Restricted checks with the baseline check that each includes and replaces."""


def _containers(spec: Object) -> Iterator[tuple[str, Object]]:
    for kind in ALL_CONTAINERS:
        for container in spec.get(kind) or ():
            yield container.get("name", ""), container


def _context(container: Object) -> dict[str, Any]:
    return container.get("securityContext") or {}


def _capabilities(container: Object, member: str) -> set[str]:
    return set((_context(container).get("capabilities") or {}).get(member) or ())


def _setters(spec: Object, is_bad: Callable[[Object], bool]) -> str:
    """Return the objects with a bad security context, as in ``pod and container "a"``; empty if there are none."""
    setters = ["pod"] if is_bad(spec.get("securityContext") or {}) else []
    if bad := [name for name, container in _containers(spec) if is_bad(_context(container))]:
        setters.append(_named(bad))
    return " and ".join(setters)


def _named(names: list[str]) -> str:
    return f"{_plural('container', len(names))} {_quoted(names)}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
