"""ConfigMaps and Secrets."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import Column, Resource, Strategy
from apiserver_stub.validation.config_maps import validate_config_map, validate_immutable_data
from apiserver_stub.validation.secrets import secret_warnings, validate_secret, validate_secret_update

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.identity import Identity


class ConfigMapStrategy(Strategy):
    """ConfigMaps."""

    def validate(self, new: Object) -> list[Cause]:
        return validate_config_map(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_immutable_data(new, old, ("data", "binaryData")) + validate_config_map(new)


class SecretStrategy(Strategy):
    """Secrets; ``stringData`` is merged into ``data`` and not stored."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def default(self, new: Object) -> None:
        new["type"] = new.get("type") or "Opaque"
        if texts := new.pop("stringData", None):
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            new["data"] = {**(new.get("data") or {}), **encoded}

    def validate(self, new: Object) -> list[Cause]:
        return validate_secret(new, self._identity)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_secret_update(new, old) + validate_secret(new, self._identity)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return secret_warnings(new, self._identity)


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "ConfigMap",
            "configmaps",
            short_names=("cm",),
            strategy=ConfigMapStrategy(),
            columns=(NAME, Column("Data", _entries), AGE),
        ),
        Resource(
            "",
            "v1",
            "Secret",
            "secrets",
            strategy=SecretStrategy(settings.identity),
            columns=(NAME, at("Type", "type"), Column("Data", _entries), AGE),
            fields={"type": ("type",)},
        ),
    ]


def _entries(obj: Object) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})
