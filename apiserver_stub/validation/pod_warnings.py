"""Warnings about valid pods and pod templates: deprecated fields and settings without the expected effect. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import quote
from apiserver_stub.validation.address_rules import AddressRules
from apiserver_stub.validation.affinity import PREFERRED, REQUIRED
from apiserver_stub.validation.claim_spec import claim_spec_warnings
from apiserver_stub.validation.node_labels import deprecation
from apiserver_stub.validation.overlapping_paths import overlap_warnings
from apiserver_stub.validation.pod_annotations import keys
from apiserver_stub.validation.pod_containers import containers
from apiserver_stub.validation.quantities import is_fractional_bytes
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release

_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_DISABLED, _GIT_DISABLED = ", and disabled by default in v1.33+", Release(1, 33)
_SPELLINGS = {"storageos": "storageOS"}
_BYTES = ("memory", "ephemeral-storage")
_REVISED = Release(1, 32)
"""First release with the newer warnings about variables and projected volumes."""
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'


def pod_warnings(
    metadata: Object, spec: Object, identity: Identity, field: str = "", release: Release = OLDEST
) -> list[str]:
    """Return the warnings about a pod, or about the pod template at *field*."""
    prefix = f"{field}." if field else ""
    path = f"{prefix}spec"
    annotations = metadata.get("annotations") or {}
    warnings = [
        *_node_label_warnings(spec, path, identity),
        *(_annotation_warnings(annotations, spec, f"{prefix}metadata.annotations", identity) if annotations else ()),
        *_volume_warnings(spec.get("volumes") or (), f"{path}.volumes", release),
        *_list_warnings(spec, path),
        *_fraction_warnings(spec.get("overhead") or {}, f"{path}.overhead"),
    ]
    ports: dict[tuple[int, str], list[tuple[str, Object]]] = {}
    for at, container in containers(spec, path):
        resources = container.get("resources") or {}
        for kind in ("limits", "requests"):
            if amounts := resources.get(kind):
                warnings += _fraction_warnings(amounts, f"{at}.resources.{kind}")
        if len(variables := container.get("env") or ()) > 1:
            warnings += _variable_warnings(variables, f"{at}.env", release)
        for index, port in enumerate(container.get("ports") or ()):
            warnings += _port_warnings(port, f"{at}.ports[{index}]", ports)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        detail = "must be >= 0; negative values are invalid and will be treated as 1"
        warnings.append(f"{path}.terminationGracePeriodSeconds: {detail}")
    if affinity := spec.get("affinity"):
        warnings += _affinity_warnings(affinity, f"{path}.affinity")
    if (rules := AddressRules(release)).is_revised:
        for index, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
            warnings += rules.warnings(f"{path}.dnsConfig.nameservers[{index}]", server)
        for index, alias in enumerate(spec.get("hostAliases") or ()):
            warnings += rules.warnings(f"{path}.hostAliases[{index}].ip", alias.get("ip") or "")
    return warnings


def pod_status_warnings(status: Object, release: Release) -> list[str]:
    """Return the warnings about addresses in the valid status of a pod."""
    rules = AddressRules(release)
    if not rules.is_revised:
        return []
    return [
        warning
        for name in ("podIPs", "hostIPs")
        for index, item in enumerate(status.get(name) or ())
        for warning in rules.warnings(f"status.{name}[{index}].ip", item.get("ip") or "")
    ]


def node_selector_term_warnings(term: Object, field: str, identity: Identity) -> list[str]:
    """Return the warnings about a term of a node selector."""
    return [
        f"{field}.matchExpressions[{index}].key: {key} is {text}"
        for index, expression in enumerate(term.get("matchExpressions") or ())
        if (text := deprecation(key := expression.get("key") or "", identity))
    ]


def _node_label_warnings(spec: Object, field: str, identity: Identity) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if text := deprecation(key, identity):
            yield f"{field}.nodeSelector[{key}]: {text}"
    if nodes := (spec.get("affinity") or {}).get("nodeAffinity"):
        path = f"{field}.affinity.nodeAffinity"
        for index, term in enumerate((nodes.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()):
            yield from node_selector_term_warnings(term, f"{path}.{REQUIRED}.nodeSelectorTerms[{index}]", identity)
        for index, weighted in enumerate(nodes.get(PREFERRED) or ()):
            term = weighted.get("preference") or {}
            yield from node_selector_term_warnings(term, f"{path}.{PREFERRED}[{index}].preference", identity)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        path = f"{field}.topologySpreadConstraints[{index}]"
        if text := deprecation(key := constraint.get("topologyKey") or "", identity):
            yield f"{path}.topologyKey: {key} is {text}"
        if constraint.get("labelSelector") is None:
            yield f"{path}.labelSelector: {_NO_SELECTOR}"


def _annotation_warnings(annotations: Object, spec: Object, field: str, identity: Identity) -> Iterator[str]:
    label = identity.label
    for key, detail in (
        (label("critical-pod", "scheduler.alpha"), 'v1.16+; use the "priorityClassName" field instead'),
        (label("sysctls", "security.alpha"), 'v1.11+; use the "sysctls" field instead'),
        (label("unsafe-sysctls", "security.alpha"), 'v1.11+; use the "sysctls" field instead'),
    ):
        if key in annotations:
            yield f"{field}[{key}]: non-functional in {detail}"
    known = keys(identity)
    owners = [(known.seccomp, spec)]
    owners += [(known.seccomp_prefix + (item.get("name") or ""), item) for _, item in containers(spec, "")]
    for key, owner in owners:
        if key in annotations and (owner.get("securityContext") or {}).get("seccompProfile") is None:
            yield f"{field}[{key}]: {_SECCOMP}"


def _volume_warnings(volumes: Sequence[Object], field: str, release: Release) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        for source in volume:
            if source in _VOLUMES:
                ending = _DISABLED if source == "gitRepo" and release >= _GIT_DISABLED else ""
                yield f"{field}[{index}].{_SPELLINGS.get(source, source)}: {_VOLUMES[source]}{ending}"
        if template := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
            path = f"{field}[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from claim_spec_warnings(template.get("spec") or {}, path)
    if release >= _REVISED:
        yield from overlap_warnings(volumes)


def _list_warnings(spec: Object, field: str) -> Iterator[str]:
    """Yield warnings about repeated host aliases and pull secrets, and pull secrets without a name."""
    addresses = [item.get("ip") or "" for item in spec.get("hostAliases") or ()]
    for index in _repeated(addresses):
        yield f"{field}.hostAliases[{index}].ip: duplicate ip {quote(addresses[index])}"
    names = [item.get("name") or "" for item in spec.get("imagePullSecrets") or ()]
    for index in _repeated(names):
        yield f"{field}.imagePullSecrets[{index}].name: duplicate name {quote(names[index])}"
    for index, name in enumerate(names):
        if not name:
            yield f'{field}.imagePullSecrets[{index}].name: invalid empty name ""'


def _repeated(texts: Sequence[str]) -> Iterator[int]:
    seen: set[str] = set()
    for index, text in enumerate(texts):
        if text in seen:
            yield index
        seen.add(text)


def _fraction_warnings(amounts: Object, field: str) -> Iterable[str]:
    return [
        f"{field}[{name}]: fractional byte value {quote(text)} is invalid, must be an integer"
        for name in _BYTES
        if (text := amounts.get(name)) and is_fractional_bytes(text)
    ]


def _variable_warnings(variables: Sequence[Object], field: str, release: Release) -> Iterator[str]:
    effect = ", which may be dropped when using apply" if release >= _REVISED else ""
    names = [item.get("name") or "" for item in variables]
    for index in _repeated(names):
        value, reference = variables[index].get("value") or "", f"$({names[index]})"
        replaced = variables[index].get("valueFrom") is not None or value == reference or reference not in value
        if replaced:
            yield f"{field}[{index}]: hides previous definition of {quote(names[index])}{effect}"


def _port_warnings(port: Object, field: str, ports: dict[tuple[int, str], list[tuple[str, Object]]]) -> Iterator[str]:
    """Yield the warnings about a port and those before it, *ports* by number and protocol, and add it to them."""
    address, host_port = port.get("hostIP") or "", port.get("hostPort") or 0
    number, protocol = port.get("containerPort") or 0, port.get("protocol") or ""
    if address and not host_port:
        shown = f"Name:{port.get('name') or ''} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{address}"
        yield f"{field}: hostIP set without hostPort: {{{shown}}}"
    others = ports.setdefault((number, protocol), [])
    for path, other in others:
        other_address, other_host_port = other.get("hostIP") or "", other.get("hostPort") or 0
        if (address, host_port) == (other_address, other_host_port):
            yield f"{field}: duplicate port definition with {path}"
        elif not host_port or not other_host_port:
            yield f"{field}: overlapping port definition with {path}"
        elif host_port == other_host_port and bool(address) != bool(other_address):
            yield f"{field}: dangerously ambiguous port definition with {path}"
    others.append((field, port))


def _affinity_warnings(affinity: Object, field: str) -> Iterator[str]:
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name) or {}
        for index, term in enumerate(pods.get(REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{field}.{name}.{REQUIRED}[{index}].labelSelector: {_NO_SELECTOR}"
        for index, weighted in enumerate(pods.get(PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{field}.{name}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"
