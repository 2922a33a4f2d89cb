"""Names of the controllers in ``--controllers``, and the selection of enabled ones. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

OTHERS: Mapping[str, str] = {
    "clusterrole-aggregation-controller": "clusterrole-aggregation",
    "device-taint-eviction-controller": "device-taint-eviction-controller",
    "ephemeral-volume-controller": "ephemeral-volume",
    "garbage-collector-controller": "garbagecollector",
    "namespace-controller": "namespace",
    "persistentvolume-attach-detach-controller": "attachdetach",
    "persistentvolume-binder-controller": "persistentvolume-binder",
    "resourceclaim-controller": "resource-claim-controller",
}
"""Controllers that do not use the shared index: name → name of older releases."""


def is_enabled(chosen: Sequence[str], name: str, alias: str = "", *, by_default: bool = True) -> bool:
    """Return whether *chosen*, the value of ``--controllers``, enables a controller.

    ``foo`` enables and ``-foo`` disables the controller *foo*; the first entry for it takes effect. ``*`` enables all
    others that are enabled by default.
    """
    for entry in chosen:
        if entry in (name, alias):
            return True
        if entry[:1] == "-" and entry[1:] in (name, alias):
            return False
    return "*" in chosen and by_default


def errors(chosen: Sequence[str], known: Mapping[str, str]) -> Iterator[str]:
    """Yield the errors in *chosen*; *known* has the names and aliases of all controllers."""
    names = {*known, *known.values()}
    for entry in chosen:
        if entry != "*" and entry.removeprefix("-") not in names:
            yield f'"{entry.removeprefix("-")}" is not in the list of known controllers'
