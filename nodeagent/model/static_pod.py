"""Static pods: conversion of a manifest to a pod that this node can run. No I/O."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from nodeagent.base import identity
from nodeagent.errors import ConfigError, Problem
from nodeagent.model.api_references import api_references
from nodeagent.model.pod import Pod, PodStatus, Toleration
from nodeagent.model.pod_defaults import default_pod
from nodeagent.model.pod_level_resources import with_pod_level_requests
from nodeagent.model.pod_source_annotations import pod_source_annotations
from nodeagent.model.pod_validation import validate_pod
from nodeagent.model.qos import compute_qos_class
from nodeagent.model.unknown_fields import unknown_fields

_UID = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,127}", re.ASCII)
_TOLERATE_NO_EXECUTE = Toleration(operator="Exists", effect="NoExecute")


def static_pod(
    plain: Any,
    *,
    node_name: str,
    source: str,
    origin: str,
    seen_at: datetime,
    tolerate_everything: bool,
    references_allowed: bool = True,
) -> Pod:
    """Return the pod of the manifest *plain*, a Pod in the shape of its JSON form.

    It is defaulted and validated; its name ends in the node's. A missing UID is computed from its content,
    the node and *origin*, so that it is unchanged after a restart of the agent.

    :param source: name of the pod source such as ``file``, for the annotation ``config.source``.
    :param origin: ``file:<path>``, ``url:<url>`` or ``plugin:<name>``.
    :param seen_at: time at which this content was first read.
    :param tolerate_everything: add the toleration for all NoExecute taints.
    :param references_allowed: whether the pod may refer to API objects (not with the feature gate
        ``PreventStaticPodAPIReferences``, because the API server then rejects its mirror pod).
    :raises ConfigError: with all problems by field path.
    """
    where = origin.partition(":")[2]
    if not isinstance(plain, dict):
        raise ConfigError([Problem(where, "", None, "must be one Pod")])
    if (plain.get("apiVersion"), plain.get("kind")) != ("v1", "Pod"):
        kind = f"{plain.get('apiVersion')}/{plain.get('kind')}"
        raise ConfigError([Problem(where, "kind", kind[:100], "must be exactly one v1 Pod")])
    try:
        pod = with_pod_level_requests(msgspec.convert(default_pod(plain), Pod))
    except msgspec.ValidationError as error:
        rule, _, path = str(error).partition(" - at ")
        problem = Problem(where, path.strip("`").removeprefix("$."), None, rule[:1].lower() + rule[1:])
        raise ConfigError([problem, *_misspelled(plain, where)]) from error
    pod = _adopt(pod, plain, node_name, source, origin, seen_at, tolerate_everything)
    problems = validate_pod(pod, where)
    if not _UID.fullmatch(pod.uid):  # It becomes the name of a directory.
        problems.append(Problem(where, "metadata.uid", pod.uid, "must be letters, digits, '-', '_' or '.'"))
    if not references_allowed:
        problems += [
            Problem(where, path, None, f"must not be set: static pods may not reference {objects}")
            for path, objects in api_references(pod)
        ]
    if problems:
        raise ConfigError([*problems, *_misspelled(plain, where)])
    return pod


def _misspelled(plain: Mapping[str, Any], where: str) -> Iterator[Problem]:
    """Yield the unknown fields: a missing field may be present under a misspelled name."""
    for path, suggestion in unknown_fields(plain):
        yield Problem(
            where, path, None, "is an unknown field" + (f", did you mean {suggestion}?" if suggestion else "")
        )


def content_uid(plain: Mapping[str, Any], node_name: str, origin: str) -> str:
    """Return a UID computed from a manifest without defaults, so that changed defaults do not affect it."""
    digest = hashlib.md5(usedforsecurity=False)
    digest.update(msgspec.json.encode(plain, order="deterministic"))
    digest.update(f"host:{node_name}".encode())
    digest.update(origin.encode())
    return digest.hexdigest()


def _adopt(
    pod: Pod,
    plain: Mapping[str, Any],
    node_name: str,
    source: str,
    origin: str,
    seen_at: datetime,
    tolerate_everything: bool,
) -> Pod:
    """Set the fields that the API server and the scheduler would have set."""
    meta, spec, label = pod.metadata, pod.spec, identity.current().label
    uid = meta.uid or content_uid(plain, node_name, origin)
    tolerations = list(spec.tolerations or ())
    if tolerate_everything and _TOLERATE_NO_EXECUTE not in tolerations:
        tolerations.append(_TOLERATE_NO_EXECUTE)
    replace = msgspec.structs.replace
    return Pod(
        metadata=replace(
            meta,
            name=f"{meta.name}-{node_name.lower()}" if meta.name else "",
            namespace=meta.namespace or "default",
            uid=uid,
            annotations={
                **(meta.annotations or {}),
                label("config.hash"): uid,
                **pod_source_annotations(source, seen_at),
            },
            resource_version="",
            deletion_timestamp=None,
            deletion_grace_period_seconds=None,
        ),
        spec=replace(spec, node_name=node_name, tolerations=tolerations or None),
        status=PodStatus(phase="Pending", qos_class=compute_qos_class(pod)),
    )
