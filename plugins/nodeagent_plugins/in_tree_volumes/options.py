"""Mount options of PersistentVolumes. No I/O."""

from __future__ import annotations

from nodeagent.base import identity
from nodeagent.model.persistent_volume import PersistentVolume


def mount_options(pv: PersistentVolume | None, *own: str) -> list[str]:
    """Return the options of the annotation or, without it, of the specification, joined with *own*; sorted."""
    options = set(own)
    if pv is not None:
        annotation = (pv.metadata.annotations or {}).get(identity.current().label("mount-options", "volume.beta"))
        given = annotation.split(",") if annotation is not None else pv.spec.mount_options or ()
        options.update(option.strip() for option in given if option.strip())
    return sorted(options)
