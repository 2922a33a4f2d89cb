"""What a namespace prescribes for its pods: node selectors and tolerations, by annotation or configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.config import HEAD, AdmissionError, check_kind, unknown_members
from apiserver_stub.admission.reading import Reader, annotations_of
from apiserver_stub.admission.tolerations import covers, merged
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import internal
from apiserver_stub.validation.pod_qos import qos_class
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_NAMES = identity.current()
_SELECTORS = (_NAMES.label("node-selector", "scheduler.alpha"),)
_DEFAULT_TOLERATIONS = _NAMES.label("defaultTolerations", "scheduler.alpha")
_ALLOWED_TOLERATIONS = _NAMES.label("tolerationsWhitelist", "scheduler.alpha")
_MEMORY_PRESSURE = _NAMES.label("memory-pressure", "node")
_CLUSTER = "clusterDefaultNodeSelector"
_TOLERATION = {"key": "", "operator": "", "value": "", "effect": "", "tolerationSeconds": 0}


class PodNodeSelector(AdmissionPlugin):
    """Adds the node selector of the namespace to its pods, or refuses them (spec: admission.PodNodeSelector)."""

    name = "PodNodeSelector"
    resources = ("pods",)
    operations = ("CREATE",)

    def __init__(self, reader: Reader, config: Object) -> None:
        """Take *config*: ``podNodeSelectorPluginConfig`` with a selector by namespace.

        :raises AdmissionError: it makes no sense.
        """
        self._reader = reader
        shape = {"podNodeSelectorPluginConfig": {"*": ""}}
        problems = [f"PodNodeSelector: {problem}" for problem in unknown_members(config, shape)]
        self._selectors: dict[str, dict[str, str]] = {}
        if not problems:
            for name, text in (config.get("podNodeSelectorPluginConfig") or {}).items():
                try:
                    self._selectors[name] = read_selector(text or "")
                except ValueError as error:
                    problems.append(f"PodNodeSelector: podNodeSelectorPluginConfig.{name}: {error}")
        if problems:
            raise AdmissionError(*problems)

    async def admit(self, call: AdmissionRequest) -> None:
        wanted, spec = self._wanted(call), call.obj["spec"]
        given = spec.get("nodeSelector") or {}
        self._check_conflict(call, wanted, given)
        if wanted:
            spec["nodeSelector"] = {**wanted, **given}

    async def validate(self, call: AdmissionRequest) -> None:
        given = call.obj["spec"].get("nodeSelector") or {}
        self._check_conflict(call, self._wanted(call), given)
        allowed = self._selectors.get(call.namespace)
        if allowed and not given.items() <= allowed.items():
            raise call.refuse("pod node label selector labels conflict with its namespace whitelist")

    def _wanted(self, call: AdmissionRequest) -> Mapping[str, str]:
        given = annotations_of(self._reader.namespace(call.namespace))
        texts = [given[name] for name in _SELECTORS if name in given]
        if not texts:
            return self._selectors.get(_CLUSTER, {})
        try:
            return read_selector(texts[0])
        except ValueError as error:
            raise internal(str(error)) from error

    @staticmethod
    def _check_conflict(call: AdmissionRequest, wanted: Mapping[str, str], given: Mapping[str, str]) -> None:
        if any(given.get(name, value) != value for name, value in wanted.items()):
            raise call.refuse("pod node label selector conflicts with its namespace node label selector")


class PodTolerationRestriction(AdmissionPlugin):
    """Gives pods the tolerations of their namespace and refuses those it does not allow.

    spec: admission.PodTolerationRestriction
    """

    name = "PodTolerationRestriction"
    resources = ("pods",)

    def __init__(self, reader: Reader, config: Object) -> None:
        """Take *config*, a ``Configuration`` with the lists of namespaces without their own.

        :raises AdmissionError: it makes no sense.
        """
        self._reader = reader
        problems: list[str] = []
        if config:
            group = _NAMES.group("podtolerationrestriction.admission")
            problems += check_kind(config, group, "Configuration", ("v1alpha1",))
            problems += unknown_members(config, {**HEAD, "default": [_TOLERATION], "whitelist": [_TOLERATION]})
        if problems:
            raise AdmissionError(*(f"PodTolerationRestriction: {problem}" for problem in problems))
        self._default: list[Object] = config.get("default") or []
        self._allowed: list[Object] = config.get("whitelist") or []

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        tolerations = spec.get("tolerations") or []
        if call.operation == "CREATE":
            own = self._of_namespace(call, _DEFAULT_TOLERATIONS)
            tolerations = merged(self._default if own is None else own, tolerations)
        if qos_class(spec) != "BestEffort":
            tolerations = merged(tolerations, [{"key": _MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule"}])
        if tolerations:
            spec["tolerations"] = merged(tolerations, [])

    async def validate(self, call: AdmissionRequest) -> None:
        tolerations = call.obj["spec"].get("tolerations") or []
        allowed, scope = self._of_namespace(call, _ALLOWED_TOLERATIONS), "namespace"
        if allowed is None:
            allowed, scope = self._allowed, "cluster"
        if allowed and not _all_covered(tolerations, allowed):
            text = "pod tolerations (possibly merged with namespace default tolerations) conflict with its"
            raise call.refuse(f"{text} {scope} whitelist")

    def _of_namespace(self, call: AdmissionRequest, annotation: str) -> list[Object] | None:
        text = annotations_of(self._reader.namespace(call.namespace)).get(annotation)
        if text is None:
            return None
        if not text:
            return []
        try:
            return msgspec.json.decode(text, type=list[dict[str, Any]])
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
            raise internal(str(error)) from error


def _all_covered(tolerations: Iterable[Object], allowed: Iterable[Object]) -> bool:
    return all(any(covers(wide, item) for wide in allowed) for item in tolerations)


def read_selector(text: str) -> dict[str, str]:
    """Return ``a=b,c=d`` as labels.

    :raises ValueError: *text* is nothing such.
    """
    found: dict[str, str] = {}
    for part in filter(None, (item.strip() for item in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or "=" in value.strip():
            raise ValueError(f"invalid selector: [{text}]")
        found[key.strip()] = value.strip()
    return found
