"""Config maps and secrets."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

import msgspec

from apiserver_stub.objects import Object, decode
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Column, Resource, Strategy
from apiserver_stub.status import Cause, forbidden_value, invalid_value, required, too_long
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

_LIMIT_BYTES = 1 << 20
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE = "field is immutable when `immutable` is set"


class ConfigMapStrategy(Strategy):
    """Keys are safe file names, data stays within 1 MiB, immutable means it."""

    def validate(self, new: Object) -> list[Cause]:
        data, binary = new.get("data") or {}, new.get("binaryData") or {}
        causes = _check_keys("data", data) + _check_keys("binaryData", binary)
        causes += [
            invalid_value(f"binaryData[{key}]", key, "must be base64")
            for key in binary
            if _decoded(binary[key]) is None
        ]
        causes += [
            invalid_value("data", key, "duplicate of key present in binaryData") for key in data if key in binary
        ]
        size = sum(len(str(value).encode()) for value in data.values())
        size += sum(len(_decoded(value) or b"") for value in binary.values())
        if size > _LIMIT_BYTES:
            causes.append(too_long("", _LIMIT_BYTES))
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return self.validate(new) + _check_immutable(new, old, ("data", "binaryData"))


class SecretStrategy(Strategy):
    """As for config maps; ``stringData`` is written into ``data`` and never kept."""

    def default(self, new: Object) -> None:
        new["type"] = new.get("type") or "Opaque"
        texts = new.pop("stringData", None) or {}
        if isinstance(texts, dict) and texts:
            data = new["data"] = dict(new.get("data") or {})
            for key, value in texts.items():
                data[key] = base64.b64encode(str(value).encode()).decode()

    def validate(self, new: Object) -> list[Cause]:
        data = new.get("data") or {}
        causes = _check_keys("data", data)
        causes += [
            invalid_value(f"data[{key}]", "<secret contents redacted>", "must be base64")
            for key in data
            if _decoded(data[key]) is None
        ]
        if sum(len(_decoded(value) or b"") for value in data.values()) > _LIMIT_BYTES:
            causes.append(too_long("data", _LIMIT_BYTES))
        causes += _check_type(new["type"], data)
        if new["type"] == identity.current().label("service-account-token"):
            name = identity.current().label("service-account.name")
            if not (new["metadata"].get("annotations") or {}).get(name):
                causes.append(required(f"metadata.annotations[{name}]"))
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes = self.validate(new) + _check_immutable(new, old, ("data",))
        if new["type"] != old.get("type"):
            causes.append(invalid_value("type", new["type"], "field is immutable"))
        return causes


def resources(options: Options) -> list[Resource]:
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
            strategy=SecretStrategy(),
            columns=(NAME, at("Type", "type"), Column("Data", _entries), AGE),
            fields={"type": ("type",)},
        ),
    ]


def _entries(obj: Object) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def _check_keys(field: str, data: Any) -> list[Cause]:
    if not isinstance(data, dict):
        return [invalid_value(field, str(data), "must be a map")]
    causes = [
        invalid_value(f"{field}[{key}]", key, _KEY_RULE) for key in data if not _KEY.fullmatch(key) or len(key) > 253
    ]
    causes += [
        invalid_value(f"{field}[{key}]", key, "is not allowed") for key in data if key in (".", "..") or key[:2] == ".."
    ]
    return causes + [
        invalid_value(f"{field}[{key}]", key, "must be text")
        for key, value in data.items()
        if not isinstance(value, str)
    ]


def _check_type(type_: str, data: Object) -> list[Cause]:
    """Return what a secret of that type lacks, or has in another form than its readers expect."""
    domain, _, word = type_.partition("/")
    if domain != identity.current().label_domain:
        return []
    if word in ("dockercfg", "dockerconfigjson"):
        key = f".{word}"
        return _check_docker_config(key, data[key]) if key in data else [required(f"data[{key}]")]
    if word == "basic-auth":  # either will do
        keys = ("username", "password")
        return [] if any(key in data for key in keys) else [required(f"data[{key}]") for key in keys]
    if word == "ssh-auth":
        return [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]
    pair = ("tls.crt", "tls.key") if word == "tls" else ()
    return [required(f"data[{key}]") for key in pair if key not in data]


def _check_docker_config(key: str, content: Any) -> list[Cause]:
    try:
        found = decode(_decoded(content) or b"")
    except (msgspec.DecodeError, RecursionError) as error:
        problem = str(error)
    else:
        problem = "" if found is None or isinstance(found, dict) else "must be a map"
    return [invalid_value(f"data[{key}]", "<secret contents redacted>", problem)] if problem else []


def _check_immutable(new: Object, old: Object, fields: tuple[str, ...]) -> list[Cause]:
    if not old.get("immutable"):
        return []
    causes = [] if new.get("immutable") else [forbidden_value("immutable", _IMMUTABLE)]
    return causes + [
        forbidden_value(name, _IMMUTABLE) for name in fields if (new.get(name) or {}) != (old.get(name) or {})
    ]


def _decoded(value: Any) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return None
