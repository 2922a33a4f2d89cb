"""API versions of the same kind: conversion between versions with equal fields, and deprecations by release."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.registry import Deprecation
from nodeagent.base.release import Release


def with_version(group: str, version: str, obj: Object) -> Object:
    """Return *obj* in *version*, which has the fields of the stored one."""
    return {**obj, "apiVersion": f"{group}/{version}"}


def effective(deprecation: Deprecation | None, release: Release) -> Deprecation | None:
    """Return *deprecation* if it has taken effect in *release*."""
    if deprecation is None or release < Release.parse(deprecation.release):
        return None
    return deprecation
