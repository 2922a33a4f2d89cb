"""Pods that come from a file or URL instead of the API: from plain data to a pod this node can run. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from nodeagent.base import identity
from nodeagent.errors import ConfigError, Problem
from nodeagent.model.pod import Pod, Toleration
from nodeagent.model.pod_defaults import default_pod
from nodeagent.model.pod_source_annotations import pod_source_annotations
from nodeagent.model.pod_validation import validate_pod
from nodeagent.model.unknown_fields import unknown_fields

_UID = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,127}", re.ASCII)
_STAYS = Toleration(operator="Exists", effect="NoExecute")


def static_pod(
    plain: Any, *, node_name: str, source: str, origin: str, seen_at: datetime, tolerate_everything: bool
) -> Pod:
    """Return the pod that *plain*, a Pod in the wire's shape, asks this node to run.

    It is defaulted and validated; its name ends in the node's, its UID, when it has none, is made from its content,
    the node and *origin*, so that it is the same after a restart of the agent.

    :param source: ``file`` or ``http``, for the annotation ``config.source``.
    :param origin: ``file:<path>`` or ``url:<url>``.
    :param seen_at: when this content was first seen.
    :param tolerate_everything: add the toleration that keeps NoExecute taints from ending the pod.
    :raises ConfigError: with every problem, named by field path.
    """
    where = origin.partition(":")[2]
    if not isinstance(plain, dict):
        raise ConfigError([Problem(where, "", None, "must hold one Pod")])
    if (plain.get("apiVersion"), plain.get("kind")) != ("v1", "Pod"):
        found = f"{plain.get('apiVersion')}/{plain.get('kind')}"
        raise ConfigError([Problem(where, "kind", found[:100], "must be a Pod of apiVersion v1, one alone")])
    try:
        pod = msgspec.convert(default_pod(plain), Pod)
    except msgspec.ValidationError as error:
        rule, _, path = str(error).partition(" - at ")
        problem = Problem(where, path.strip("`").removeprefix("$."), None, rule[:1].lower() + rule[1:])
        raise ConfigError([problem, *_misspelt(plain, where)]) from error
    pod = _adopt(pod, plain, node_name, source, origin, seen_at, tolerate_everything)
    problems = validate_pod(pod, where)
    if not _UID.fullmatch(pod.uid):  # it becomes a directory name
        problems.append(Problem(where, "metadata.uid", pod.uid, "must be letters, digits, '-', '_' or '.'"))
    if problems:
        raise ConfigError([*problems, *_misspelt(plain, where)])
    return pod


def _misspelt(plain: Mapping[str, Any], where: str) -> Iterator[Problem]:
    """Yield the fields that no pod has: where something lacks, it may be there under another name."""
    for path, meant in unknown_fields(plain):
        yield Problem(where, path, None, "is no field of a pod" + (f", did you mean {meant}?" if meant else ""))


def content_uid(plain: Mapping[str, Any], node_name: str, origin: str) -> str:
    """Return a UID made from what a pod says, without defaults, so that it outlives changes of those."""
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
    """Give the pod what the API server and the scheduler would have given it."""
    meta, spec, label = pod.metadata, pod.spec, identity.current().label
    uid = meta.uid or content_uid(plain, node_name, origin)
    tolerations = list(spec.tolerations or ())
    if tolerate_everything and _STAYS not in tolerations:
        tolerations.append(_STAYS)
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
        status=type(pod.status)(phase="Pending"),
    )
