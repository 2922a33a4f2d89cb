"""PodTolerationRestriction admission plugin: add the tolerations of the namespace to its pods and restrict theirs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import msgspec

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.config import HEAD, AdmissionError, check_kind, unknown_members
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.admission.tolerations import covers, merged
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import internal
from apiserver_stub.validation.pod_qos import qos_class
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_TOLERATION = {"key": "", "operator": "", "value": "", "effect": "", "tolerationSeconds": 0}


class PodTolerationRestriction(AdmissionPlugin):
    """Add the tolerations of the namespace to its pods and enforce its whitelist.

    spec: admission.PodTolerationRestriction
    """

    name = "PodTolerationRestriction"
    order = 1700
    enabled_by_default = False
    resources = ("pods",)

    def __init__(self, lister: Lister, config: Object, identity: Identity) -> None:
        """Read *config*, a ``Configuration`` with the lists for namespaces without annotations.

        :raises AdmissionError: *config* is invalid.
        """
        self._lister = lister
        self._defaults_annotation = identity.label("defaultTolerations", "scheduler.alpha")
        self._allowed_annotation = identity.label("tolerationsWhitelist", "scheduler.alpha")
        self._memory_pressure = {
            "key": identity.label("memory-pressure", "node"),
            "operator": "Exists",
            "effect": "NoSchedule",
        }
        problems: list[str] = []
        if config:
            group = identity.group("podtolerationrestriction.admission")
            problems += check_kind(config, group, "Configuration", ("v1alpha1",))
            problems += unknown_members(config, {**HEAD, "default": [_TOLERATION], "whitelist": [_TOLERATION]})
        if problems:
            raise AdmissionError(*(f"PodTolerationRestriction: {problem}" for problem in problems))
        self._default: list[Object] = config.get("default") or []
        self._allowed: list[Object] = config.get("whitelist") or []

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.config, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        tolerations = spec.get("tolerations") or []
        if call.operation == "CREATE":
            defaults = self._of_namespace(call, self._defaults_annotation)
            tolerations = merged(self._default if defaults is None else defaults, tolerations)
        if qos_class(spec) != "BestEffort":
            tolerations = merged(tolerations, [dict(self._memory_pressure)])
        if tolerations:
            spec["tolerations"] = merged(tolerations, [])

    async def validate(self, call: AdmissionRequest) -> None:
        tolerations = call.obj["spec"].get("tolerations") or []
        allowed, scope = self._of_namespace(call, self._allowed_annotation), "namespace"
        if allowed is None:
            allowed, scope = self._allowed, "cluster"
        if allowed and not _all_covered(tolerations, allowed):
            text = "pod tolerations (possibly merged with namespace default tolerations) conflict with its"
            raise call.forbidden(f"{text} {scope} whitelist")

    def _of_namespace(self, call: AdmissionRequest, annotation: str) -> list[Object] | None:
        text = annotations_of(self._lister.namespace(call.namespace)).get(annotation)
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
