"""The containers of a pod spec, of every kind. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.apimachinery.objects import Object

CONTAINER_KINDS = ("initContainers", "containers", "ephemeralContainers")


def containers(spec: Object, field: str) -> Iterator[tuple[str, Object]]:
    """Yield the containers of the pod *spec* at *field*, with their paths, in the order of upstream's visitors."""
    for kind in CONTAINER_KINDS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield f"{field}.{kind}[{index}]", container
