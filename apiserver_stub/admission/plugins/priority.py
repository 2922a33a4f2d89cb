"""Priority admission plugin: resolve the priority classes of pods and reject a second default class."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.admission.pod_fields import mirror_annotation
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_PREEMPTS = "PreemptLowerPriority"


class Priority(AdmissionPlugin):
    """Resolve the priority classes of pods and reject a second default class (spec: admission.Priority)."""

    name = "Priority"
    order = 1500
    enabled_by_default = True

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister = lister
        group = identity.group("scheduling")
        self.resources = ("pods", qualified("priorityclasses", group))
        self._classes, self._mirror = f"{group}/priorityclasses", mirror_annotation(identity)

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        if call.resource.plural != "pods":
            return
        spec = call.obj["spec"]
        if call.operation == "UPDATE":
            old = (call.old or {}).get("spec") or {}
            for member in ("priority", "preemptionPolicy"):
                if spec.get(member) is None and old.get(member) is not None:
                    spec[member] = old[member]
            return
        found = self._class_of(call, spec)
        value, policy = found.get("value", 0), found.get("preemptionPolicy", _PREEMPTS)
        given, mirror = spec.get("priority"), self._mirror in annotations_of(call.obj)
        if given is not None and given != value and not mirror:
            text = f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            raise call.forbidden(f"{text}controller computed {value} from the given PriorityClass name")
        given_policy = spec.get("preemptionPolicy")
        if given_policy is not None and given_policy != policy and not mirror:
            text = f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod spec; priority "
            raise call.forbidden(f"{text}admission controller computed {policy} from the given PriorityClass name")
        spec["priority"], spec["preemptionPolicy"] = value, policy

    async def validate(self, call: AdmissionRequest) -> None:
        if call.resource.plural == "pods" or not call.obj.get("globalDefault"):
            return
        other = self._default()
        if other and other["metadata"]["name"] != call.obj["metadata"].get("name"):
            name = other["metadata"]["name"]
            raise call.forbidden(f"PriorityClass {name} is already marked as default. Only one default can exist")

    def _class_of(self, call: AdmissionRequest, spec: Object) -> Object:
        if name := spec.get("priorityClassName"):
            found = self._lister.find(self._classes, name)
            if found is None:
                raise call.forbidden(f"no PriorityClass with name {name} was found")
            return found
        found = self._default()
        if found:
            spec["priorityClassName"] = found["metadata"]["name"]
        return found

    def _default(self) -> Object:
        """Return the default class with the lowest value, or an empty object if there is none."""
        defaults = [item for item in self._lister.every(self._classes) if item.get("globalDefault")]
        return min(defaults, key=lambda item: int(item.get("value", 0))) if defaults else {}
