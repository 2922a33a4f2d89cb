"""Validation of secrets: keys, size, and the data that the types of Kubernetes require."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import msgspec

from apiserver_stub.apimachinery.go_format import type_name
from apiserver_stub.apimachinery.objects import Object, decode
from apiserver_stub.apimachinery.status import Cause, invalid_value, required, too_long
from apiserver_stub.validation.config_maps import (
    SIZE_LIMIT_BYTES,
    decoded_size,
    validate_immutable_data,
    validate_keys,
)
from apiserver_stub.validation.key_pairs import key_pair_problem
from nodeagent.base.identity import Identity

_REDACTED = "<secret contents redacted>"


def validate_secret(secret: Object, identity: Identity) -> list[Cause]:
    """Return the errors in a secret."""
    data: Mapping[str, str] = secret.get("data") or {}
    causes = validate_keys(data, "data")
    if decoded_size(data.values()) > SIZE_LIMIT_BYTES:
        causes.append(too_long("data", SIZE_LIMIT_BYTES))
    return causes + _validate_type(secret, data, identity)


def validate_secret_update(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the change of a secret, beyond the rules for new ones."""
    causes = []
    if new["type"] != old.get("type"):
        causes.append(invalid_value("type", new["type"], "field is immutable"))
    return causes + validate_immutable_data(new, old, ("data",))


def secret_warnings(secret: Object, identity: Identity) -> list[str]:
    """Return a warning for a TLS secret whose certificate and key do not fit."""
    if secret.get("type") != identity.label("tls"):
        return []
    data = secret.get("data") or {}
    certificate, key = (base64.b64decode(data.get(name) or "") for name in ("tls.crt", "tls.key"))
    problem = key_pair_problem(certificate, key)
    return [problem] if problem else []


def _validate_type(secret: Object, data: Mapping[str, str], identity: Identity) -> list[Cause]:
    domain, _, kind = secret["type"].partition("/")
    if domain != identity.label_domain:
        return []
    match kind:
        case "service-account-token":
            name = identity.label("service-account.name")
            given = (secret["metadata"].get("annotations") or {}).get(name)
            return [] if given else [required(f"metadata.annotations[{name}]")]
        case "dockercfg" | "dockerconfigjson":
            return _validate_object(data, f".{kind}")
        case "basic-auth" if "username" not in data and "password" not in data:
            return [required("data[username]"), required("data[password]")]
        case "ssh-auth" if not data.get("ssh-privatekey"):
            return [required("data[ssh-privatekey]")]
        case "tls":
            return [required(f"data[{name}]") for name in ("tls.crt", "tls.key") if name not in data]
    return []


def _validate_object(data: Mapping[str, str], key: str) -> list[Cause]:
    """Return the error in the value of *key*, which must be a JSON object."""
    if key not in data:
        return [required(f"data[{key}]")]
    content = base64.b64decode(data[key]).decode(errors="replace").encode()  # Upstream's decoder replaces them too.
    try:
        value = decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        return [invalid_value(f"data[{key}]", _REDACTED, _json_problem(content, str(error)))]
    if value is None or isinstance(value, dict):
        return []
    detail = f"json: cannot unmarshal {type_name(value)} into Go value of type map[string]interface {{}}"
    return [invalid_value(f"data[{key}]", _REDACTED, detail)]


def _json_problem(content: bytes, problem: str) -> str:
    text = content.decode(errors="replace").strip()
    if not text or "truncated" in problem:
        return "unexpected end of JSON input"
    if text[0] not in '{["-0123456789ntf':
        return f"invalid character '{text[0]}' looking for beginning of value"
    return problem
