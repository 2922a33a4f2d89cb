"""PodNodeSelector admission plugin: add the node selector of the namespace to its pods and enforce its whitelist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.config import AdmissionError, unknown_members
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import internal
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_CLUSTER = "clusterDefaultNodeSelector"


class PodNodeSelector(AdmissionPlugin):
    """Add the node selector of the namespace to its pods and enforce its whitelist.

    spec: admission.PodNodeSelector
    """

    name = "PodNodeSelector"
    order = 1400
    enabled_by_default = False
    resources = ("pods",)
    operations = ("CREATE",)

    def __init__(self, lister: Lister, config: Object, identity: Identity) -> None:
        """Read *config*: ``podNodeSelectorPluginConfig`` with a selector per namespace.

        :raises AdmissionError: *config* is invalid.
        """
        self._lister, self._annotation = lister, identity.label("node-selector", "scheduler.alpha")
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

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.config, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        default, spec = self._default(call), call.obj["spec"]
        given = spec.get("nodeSelector") or {}
        self._check_conflict(call, default, given)
        if default:
            spec["nodeSelector"] = {**default, **given}

    async def validate(self, call: AdmissionRequest) -> None:
        given = call.obj["spec"].get("nodeSelector") or {}
        self._check_conflict(call, self._default(call), given)
        allowed = self._selectors.get(call.namespace)
        if allowed and not given.items() <= allowed.items():
            raise call.forbidden("pod node label selector labels conflict with its namespace whitelist")

    def _default(self, call: AdmissionRequest) -> Mapping[str, str]:
        text = annotations_of(self._lister.namespace(call.namespace)).get(self._annotation)
        if text is None:
            return self._selectors.get(_CLUSTER, {})
        try:
            return read_selector(text)
        except ValueError as error:
            raise internal(str(error)) from error

    @staticmethod
    def _check_conflict(call: AdmissionRequest, default: Mapping[str, str], given: Mapping[str, str]) -> None:
        if any(given.get(name, value) != value for name, value in default.items()):
            raise call.forbidden("pod node label selector conflicts with its namespace node label selector")


def read_selector(text: str) -> dict[str, str]:
    """Return the labels of a selector in the form ``a=b,c=d``.

    :raises ValueError: *text* is not in this form.
    """
    labels: dict[str, str] = {}
    for part in filter(None, (item.strip() for item in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or "=" in value.strip():
            raise ValueError(f"invalid selector: [{text}]")
        labels[key.strip()] = value.strip()
    return labels
