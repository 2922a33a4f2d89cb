"""Provider ``kms`` of the encryption configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apiserver_stub.storage.encryption.data_keys import CAPACITY, DataKeys
from apiserver_stub.storage.encryption.transformers import Transformer
from nodeagent.base.duration import parse_duration

_GATE = "KMSv1"
_DEPRECATED = (
    "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set "
    f"--feature-gates={_GATE}=true to use the deprecated KMSv1 feature."
)
_DEFAULT_SECONDS = 3.0


def check_kms(body: dict[str, Any], path: str, *, allows_v1: bool) -> Iterator[str]:
    """Return the errors in the fields of the provider; the uniqueness of its name is not checked."""
    version, name, endpoint = body.get("apiVersion", "v1"), body.get("name"), body.get("endpoint")
    if version not in ("v1", "v2"):
        text = f"unsupported apiVersion {version} for KMS provider, only v1 and v2 are supported"
        yield _invalid(f"{path}.apiVersion", version, text)
    elif version == "v1" and not allows_v1:
        yield f"{path}.apiVersion: Forbidden: {_DEPRECATED}"
    if not isinstance(name, str) or not name:
        yield f"{path}.name: Required value: name is a mandatory field for a KMS provider"
    elif ":" in name:
        yield _invalid(f"{path}.name", name, "must not contain ':'")
    if not isinstance(endpoint, str) or not endpoint:
        yield f"{path}.endpoint: Required value: endpoint is a mandatory field for a KMS provider"
    elif (scheme := endpoint.partition("://")[0]) != "unix":
        text = f'unsupported scheme "{scheme}" for KMS provider, only unix is supported'
        yield _invalid(f"{path}.endpoint", endpoint, text)
    if (size := body.get("cachesize")) is not None:
        if version == "v2":
            yield _invalid(f"{path}.cachesize", size, "cachesize is not supported in v2")
        elif not isinstance(size, int) or isinstance(size, bool) or size == 0:
            yield _invalid(f"{path}.cachesize", size, "cachesize should be a positive value, or negative to disable")
    if _seconds(body) <= 0:
        yield _invalid(f"{path}.timeout", body["timeout"], "timeout must be a positive value")


def build_kms(body: dict[str, Any]) -> Transformer:
    """Return the transformer of a valid provider."""
    from apiserver_stub.storage.encryption.kms_v1 import KmsV1Transformer
    from apiserver_stub.storage.encryption.kms_v2 import KmsV2Transformer

    name, socket, seconds = body["name"], body["endpoint"].removeprefix("unix://"), _seconds(body)
    if body.get("apiVersion") == "v2":
        from apiserver_stub.storage.encryption.kms_v2_client import KmsV2Client

        return KmsV2Transformer(DataKeys(name, KmsV2Client(socket, seconds)))
    from apiserver_stub.storage.encryption.kms_v1_client import KmsV1Client

    capacity = body.get("cachesize", CAPACITY)
    return KmsV1Transformer(DataKeys(name, KmsV1Client(socket, seconds), always_new=True, capacity=capacity))


def _seconds(body: dict[str, Any]) -> float:
    """Return the timeout; 0 if it is invalid."""
    if (timeout := body.get("timeout")) is None:
        return _DEFAULT_SECONDS
    try:
        return parse_duration(str(timeout)).seconds
    except ValueError:
        return 0.0


def _invalid(path: str, value: Any, text: str) -> str:
    return f"{path}: Invalid value: {quoted(value)}: {text}"


def quoted(value: Any) -> str:
    """Return *value* as errors display it."""
    return f'"{value}"' if isinstance(value, str) else str(value)
