"""PodSecurity admission plugin: enforce, audit and warn against the Pod Security Standards of the namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.config import HEAD, AdmissionError, check_kind, unknown_members
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, labels_of
from apiserver_stub.admission.pod_fields import containers
from apiserver_stub.admission.pod_security.checks import Standards
from apiserver_stub.admission.pod_security.levels import (
    EARLY,
    LATEST,
    LEVELS,
    MODES,
    Level,
    Mode,
    Policy,
    label,
    level_problem,
    name_prefix,
    read_policy,
    version_problem,
)
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import invalid
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_SHAPE = {
    **HEAD,
    "defaults": {name: "" for mode in MODES for name in (mode, f"{mode}-version")},
    "exemptions": {"usernames": [""], "runtimeClasses": [""], "namespaces": [""]},
}
_MAX_PODS = 3000


class PodSecurity(AdmissionPlugin):
    """Enforce, audit and warn against the Pod Security Standards of the namespace (spec: admission.PodSecurity)."""

    name = "PodSecurity"
    order = 1300
    enabled_by_default = True
    resources = ("pods", "pods/ephemeralcontainers", "namespaces")

    def __init__(self, lister: Lister, config: Object, identity: Identity, standards: Standards = EARLY) -> None:
        """Read *config*, a ``PodSecurityConfiguration`` with defaults and exemptions.

        :raises AdmissionError: *config* is invalid.
        """
        if problems := list(_problems(config, identity)):
            raise AdmissionError(*(f"PodSecurity: {problem}" for problem in problems))
        self._standards = standards
        self._lister, self._identity, self._prefix = lister, identity, name_prefix(identity)
        given = config.get("defaults") or {}
        self._defaults: Policy = {
            mode: Level(given.get(mode) or LEVELS[0], given.get(f"{mode}-version") or LATEST) for mode in MODES
        }
        exempt = config.get("exemptions") or {}
        self._users = frozenset(exempt.get("usernames") or ())
        self._classes = frozenset(exempt.get("runtimeClasses") or ())
        self._namespaces = frozenset(exempt.get("namespaces") or ())

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        relaxes = context.gates.enabled("UserNamespacesPodSecurityStandards")
        standards = Standards(context.release.minor, relaxes_user_namespaces=relaxes)
        return cls(context.lister, context.config, context.identity, standards)

    async def validate(self, call: AdmissionRequest) -> None:
        if call.resource.plural == "namespaces":
            self._check_namespace(call)
        elif not self._is_exempt(call):
            self._check_pod(call)

    def _is_exempt(self, call: AdmissionRequest) -> bool:
        annotations = call.request.annotations
        for word, exempt in (
            ("namespace", call.namespace in self._namespaces),
            ("user", call.request.user.name in self._users),
            ("runtimeClass", call.obj["spec"].get("runtimeClassName") in self._classes),
        ):
            if exempt:
                annotations[self._prefix + "exempt"] = word
                return True
        return call.operation == "UPDATE" and _images(call.obj) == _images(call.old or {})

    def _check_pod(self, call: AdmissionRequest) -> None:
        policy, causes = read_policy(labels_of(self._lister.namespace(call.namespace)), self._defaults, self._prefix)
        annotations = call.request.annotations
        if causes:
            texts = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
            annotations[self._prefix + "error"] = f"Failed to parse policy: {texts}"
        if all(level.is_privileged for level in policy.values()):
            return
        problems = {
            level: ", ".join(map(str, level.findings(call.obj, self._identity, self._standards)))
            for level in set(policy.values())
        }
        enforced, audited, warned = (policy[mode] for mode in MODES)
        annotations[self._prefix + "enforce-policy"] = str(enforced)
        if problem := problems[audited]:
            annotations[self._prefix + "audit-violations"] = f'would violate PodSecurity "{audited}": {problem}'
        if problem := problems[enforced]:
            raise call.forbidden(f'violates PodSecurity "{enforced}": {problem}')
        if problem := problems[warned]:
            call.request.warnings.append(f'would violate PodSecurity "{warned}": {problem}')

    def _check_namespace(self, call: AdmissionRequest) -> None:
        new = labels_of(call.obj)
        policy, causes = read_policy(new, self._defaults, self._prefix)
        before, previous = read_policy(labels_of(call.old or {}), self._defaults, self._prefix)
        if causes and (call.operation == "CREATE" or causes != previous):
            raise invalid("", "Namespace", call.target, causes)
        if call.operation == "CREATE" or policy["enforce"] != before["enforce"]:
            name = call.target
            if name in self._namespaces:
                call.request.warnings.extend(self._ignored(name, policy, new))
            elif call.operation == "UPDATE" and _is_stricter(policy["enforce"], before["enforce"]):
                call.request.warnings.extend(self._violations(name, policy["enforce"]))

    def _ignored(self, namespace: str, policy: dict[Mode, Level], labels: dict[str, str]) -> Iterator[str]:
        parts = [
            f"{mode}={level}"
            for mode, level in policy.items()
            if not level.is_privileged
            and (label(self._prefix, mode) in labels or label(self._prefix, mode, version=True) in labels)
        ]
        if parts and policy != self._defaults:
            yield (
                f'namespace "{namespace}" is exempt from Pod Security, and the policy ({", ".join(parts)}) will be '
                "ignored"
            )

    def _violations(self, namespace: str, level: Level) -> Iterator[str]:
        """Yield warnings about existing pods that violate a stricter level, one for each set of violated checks."""
        pods = self._lister.pods(namespace)
        pods = [pod for pod in pods if pod["spec"].get("runtimeClassName") not in self._classes]
        names: dict[str, list[str]] = {}
        for pod in pods[:_MAX_PODS]:
            if reasons := ", ".join(finding.reason for finding in level.findings(pod, self._identity, self._standards)):
                names.setdefault(reasons, []).append(pod["metadata"]["name"])
        if len(pods) > _MAX_PODS:
            yield (
                f"new PodSecurity enforce level only checked against the first {_MAX_PODS} of {len(pods)} existing pods"
            )
        if names:
            yield f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"'
        texts = []
        for reasons, pod_names in names.items():
            others = len(pod_names) - 1
            more = f" (and {others} other {'pod' if others == 1 else 'pods'})" if others else ""
            texts.append(f"{min(pod_names)}{more}: {reasons}")
        yield from sorted(texts)


def _is_stricter(new: Level, old: Level) -> bool:
    if new.is_privileged:
        return False
    return new.version != old.version or LEVELS.index(new.name) > LEVELS.index(old.name)


def _images(pod: Object) -> list[tuple[str, str]]:
    """Return the containers of *pod* with their images, the only checked fields that updates can change."""
    return [
        (container.get("name", ""), container.get("image", "")) for _, container in containers(pod.get("spec") or {})
    ]


def _problems(config: Object, identity: Identity) -> Iterator[str]:
    if not config:
        return
    group = identity.group("pod-security.admission.config")
    yield from check_kind(config, group, "PodSecurityConfiguration", ("v1", "v1beta1", "v1alpha1"))
    errors = list(unknown_members(config, _SHAPE))
    yield from errors
    if errors:
        return
    for name, value in (config.get("defaults") or {}).items():
        problem = version_problem(value) if name.endswith("-version") else level_problem(value)
        if problem and value:
            yield f'defaults.{name}: Invalid value: "{value}": {problem}'
    for name, values in (config.get("exemptions") or {}).items():
        for index, value in enumerate(values or ()):
            if not value:
                yield f'exemptions.{name}[{index}]: Invalid value: "": must not be empty'
            elif value in values[:index]:
                yield f'exemptions.{name}[{index}]: Duplicate value: "{value}"'
