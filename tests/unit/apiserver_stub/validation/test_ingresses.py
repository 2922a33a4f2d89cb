"""Tests for the validation of ingresses and ingress classes."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.ingresses import (
    validate_ingress,
    validate_ingress_class,
    validate_ingress_class_update,
    validate_ingress_update,
)
from nodeagent.base.identity import Identity

_BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
_RESOURCE = {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}


def _ingress(**spec: Any) -> dict[str, Any]:
    annotations = spec.pop("annotations", {})
    return {"metadata": {"annotations": annotations}, "spec": {"defaultBackend": _BACKEND, **spec}}


def _with_path(**path: Any) -> dict[str, Any]:
    path = {"path": "/", "pathType": "Prefix", "backend": _BACKEND, **path}
    return {"rules": [{"host": path.pop("host", ""), "http": {"paths": [path]}}]}


def _texts(causes: list[Any]) -> list[str]:
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


_AT = "spec.rules[0].http.paths[0]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"defaultBackend": None}, ["Invalid spec"]),
        ({"defaultBackend": {}}, ["Invalid spec.defaultBackend"]),
        ({"defaultBackend": _BACKEND | {"resource": _RESOURCE}}, ["Invalid spec.defaultBackend"]),
        ({"defaultBackend": {"service": {"name": "web"}}}, ["Required spec.defaultBackend"]),
        ({"defaultBackend": {"service": {"port": {"name": "http"}}}}, ["Required spec.defaultBackend.service.name"]),
        (
            {"defaultBackend": {"service": {"name": "web", "port": {"name": "a", "number": 80}}}},
            ["Invalid spec.defaultBackend"],
        ),
        (
            {"defaultBackend": {"service": {"name": "web", "port": {"number": 70000}}}},
            ["Invalid spec.defaultBackend.service.port.number"],
        ),
        (
            {"defaultBackend": {"service": {"name": "web", "port": {"name": "Bad"}}}},
            ["Invalid spec.defaultBackend.service.port.name"],
        ),
        ({"defaultBackend": {"resource": _RESOURCE | {"kind": ""}}}, ["Required spec.defaultBackend.resource.kind"]),
        ({"defaultBackend": {"resource": _RESOURCE | {"name": "a/b"}}}, ["Invalid spec.defaultBackend.resource.name"]),
        ({"ingressClassName": "A"}, ["Invalid spec.ingressClassName"]),
        ({"tls": [{"hosts": ["*.example.com", "A"]}]}, ["Invalid spec.tls[0].hosts[1]"]),
        ({"tls": [{"secretName": "B"}]}, ["Invalid spec.tls[0].secretName"]),
        ({"rules": [{"host": "10.0.0.1"}]}, ["Invalid spec.rules[0].host"]),
        ({"rules": [{"host": "*.*.example.com"}]}, ["Invalid spec.rules[0].host"]),
        ({"rules": [{"http": {"paths": []}}]}, ["Required spec.rules[0].http.paths"]),
        (_with_path(pathType=None), [f"Required {_AT}.pathType"]),
        (_with_path(pathType="Other"), [f"NotSupported {_AT}.pathType"]),
        (_with_path(path=""), [f"Invalid {_AT}.path"]),
        (_with_path(path="/a//b/.."), [f"Invalid {_AT}.path"] * 2),
        (_with_path(pathType="ImplementationSpecific", path=""), []),
        (_with_path(pathType="ImplementationSpecific", path="a"), [f"Invalid {_AT}.path"]),
        (_with_path(backend={}), [f"Invalid {_AT}.backend"]),
        (
            {"annotations": {"kubernetes.io/ingress.class": "a"}, "ingressClassName": "b"},
            ["Invalid annotations.kubernetes.io/ingress.class"],
        ),
    ],
)
def test_errors_of_ingress_are_reported(spec: dict[str, Any], expected: list[str]) -> None:
    assert _texts(validate_ingress(_ingress(**spec), Identity())) == expected


def test_update_allows_stored_errors() -> None:
    secret = {"tls": [{"secretName": "Bad"}]}
    wildcard = _with_path(host="*.example.com", backend={})
    path = _with_path(host="www.example.com", backend={})

    assert _texts(validate_ingress_update(_ingress(**secret), _ingress(**secret))) == []
    assert _texts(validate_ingress_update(_ingress(**wildcard), _ingress(**wildcard))) == []
    assert _texts(validate_ingress_update(_ingress(**wildcard), _ingress())) == [f"Invalid {_AT}.backend"]
    assert _texts(validate_ingress_update(_ingress(**path), _ingress(**path))) == [f"Invalid {_AT}.backend"]
    valid = _with_path(host="*.example.com")
    assert _texts(validate_ingress_update(_ingress(**wildcard), _ingress(**path))) == [f"Invalid {_AT}.backend"]
    assert _texts(validate_ingress_update(_ingress(**wildcard), _ingress(**valid))) == [f"Invalid {_AT}.backend"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"controller": ""}, ["Required spec.controller"]),
        ({"controller": "example.com"}, ["Invalid spec.controller"]),
        ({"controller": "Example.com/a b"}, ["Invalid spec.controller"] * 2),
        ({"controller": "example.com/" + "a" * 250}, ["TooLong spec.controller"]),
        ({"parameters": _RESOURCE | {"scope": "Cluster"}}, []),
        ({"parameters": _RESOURCE | {"scope": "Cluster", "namespace": "a"}}, ["Forbidden spec.parameters.namespace"]),
        ({"parameters": _RESOURCE | {"scope": "Namespace"}}, ["Required spec.parameters.namespace"]),
        ({"parameters": _RESOURCE | {"scope": "Namespace", "namespace": "A"}}, ["Invalid spec.parameters.namespace"]),
        ({"parameters": _RESOURCE | {"scope": "Other"}}, ["NotSupported spec.parameters.scope"]),
        (
            {"parameters": {"apiGroup": "A", "scope": "Cluster"}},
            [
                f"{what} spec.parameters.{name}"
                for what, name in (("Invalid", "apiGroup"), ("Required", "kind"), ("Required", "name"))
            ],
        ),
    ],
)
def test_errors_of_ingress_class_are_reported(spec: dict[str, Any], expected: list[str]) -> None:
    assert _texts(validate_ingress_class({"spec": {"controller": "example.com/ingress", **spec}})) == expected


def test_controller_of_ingress_class_does_not_change() -> None:
    old, new = ({"spec": {"controller": f"example.com/{name}"}} for name in "ab")

    assert _texts(validate_ingress_class_update(new, old)) == ["Invalid spec.controller"]
