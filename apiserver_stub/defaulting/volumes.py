"""Defaults of the volumes of pods."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.images import image_pull_policy
from apiserver_stub.defaulting.table import Defaults
from apiserver_stub.defaulting.volume_sources import VOLUME_SOURCES

FIELD_REF = Defaults({"apiVersion": "v1"})
CLAIM_SPEC = Defaults({"volumeMode": "Filesystem"})
"""Defaults of the spec of a persistent volume claim."""

_FILE_MODE = {"defaultMode": 0o644}
_TOKEN_SECONDS = 3600
_FILES = Defaults(below={"items": Defaults(below={"fieldRef": FIELD_REF})})


def _set_empty_dir(volume: Object) -> None:
    """Set the source of a volume without one."""
    if len(volume) == ("name" in volume):
        volume["emptyDir"] = {}


def _default_pull_policy(source: Object) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = image_pull_policy(source.get("reference") or "")


VOLUME = Defaults(
    rule=_set_empty_dir,
    below={
        **VOLUME_SOURCES,
        "secret": Defaults(_FILE_MODE),
        "configMap": Defaults(_FILE_MODE),
        "downwardAPI": Defaults(_FILE_MODE, below=_FILES.below),
        "projected": Defaults(
            _FILE_MODE,
            below={
                "sources": Defaults(
                    below={
                        "downwardAPI": _FILES,
                        "serviceAccountToken": Defaults({"expirationSeconds": _TOKEN_SECONDS}),
                    }
                )
            },
        ),
        "image": Defaults(rule=_default_pull_policy),
        "ephemeral": Defaults(below={"volumeClaimTemplate": Defaults(below={"spec": CLAIM_SPEC})}),
    },
)
