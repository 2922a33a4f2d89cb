"""Names and kinds of unvalidated objects in error messages. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object


def identity_of(obj: Object) -> str:
    """Return namespace, name and kind of *obj*."""
    metadata = obj.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    return f"{_text(names, 'namespace')}/{_text(names, 'name')}; {kind_of(obj)}"


def kind_of(obj: Object) -> str:
    """Return version and kind of *obj*: ``/v1, Kind=Pod``; invalid values are empty."""
    version = _text(obj, "apiVersion")
    return full_kind(version, _text(obj, "kind")) if version.count("/") < 2 else full_kind("", "")


def full_kind(api_version: str, kind: str) -> str:
    """Return *kind* with its version."""
    return f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={kind}"


def _text(obj: Object, name: str) -> str:
    value = obj.get(name)
    return value if isinstance(value, str) else ""
