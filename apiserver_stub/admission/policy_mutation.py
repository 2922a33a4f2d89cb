"""Mutations of admission policies: configurations that are merged into objects, and JSON patches. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from apiserver_stub.admission.policy_evaluation import Evaluation, Policy
from apiserver_stub.apimachinery.json_patch import apply_json_patch
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.cel.mutation_expressions import APPLY, PATCH_TYPES, MutationExpression
from apiserver_stub.schema.typed.elements import InvalidElement
from apiserver_stub.schema.typed.merging import merge

if TYPE_CHECKING:
    from apiserver_stub.schema.shapes import Shape


class MutationError(Exception):
    """A mutation cannot be applied to the object."""


class MutatingPolicy(Policy):
    """One mutating policy, compiled."""

    def __init__(self, obj: Object) -> None:
        """Compile the expressions of *obj*.

        :raises CelError: an expression does not compile; stored policies are validated, so theirs do.
        """
        super().__init__(obj)
        spec = obj.get("spec") or {}
        self.reinvokes = spec.get("reinvocationPolicy") == "IfNeeded"
        self.mutations = [
            (item["patchType"], MutationExpression(item[PATCH_TYPES[item["patchType"]]]["expression"]))
            for item in spec["mutations"]
        ]


class Mutation(Evaluation):
    """Evaluation of a mutating policy for the current object."""

    def __init__(self, policy: MutatingPolicy, data: dict[str, Any]) -> None:
        super().__init__(policy, data)
        self._mutations, self._object = policy.mutations, data["object"]

    def result(self, index: int, shape: Shape | None) -> Object:
        """Return the object after the mutation *index*.

        :param shape: of the objects of the kind; ``None`` if there is no schema.
        :raises CelError: the expression has no value.
        :raises MutationError: its value cannot be applied to the object.
        """
        patch_type, expression = self._mutations[index]
        value, field = self.value(expression), f"spec.mutations[{index}].{PATCH_TYPES[patch_type]}.expression"
        try:
            if patch_type == APPLY:
                return _configured(self._object, value, shape)
            result: Any = apply_json_patch(self._object, value)
        except (ApiError, InvalidElement) as error:
            raise MutationError(f"{field}: {error}") from error
        if not isinstance(result, dict):
            raise MutationError(f"{field}: JSON Patch: the result is not an object")
        return result


def _configured(obj: Object, config: Any, shape: Shape | None) -> Object:
    if not isinstance(config, dict) or shape is None:
        raise MutationError("ApplyConfiguration expression must evaluate to an object of a kind with a schema")
    if atomic := next(_atomic_paths(config, shape, ""), None):
        raise MutationError(
            f"error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomic}"
        )
    return dict(merge(obj, config, shape))


def _atomic_paths(config: Any, shape: Shape, path: str) -> Iterator[str]:
    """Yield the paths of atomic lists and objects that *config* sets, and would replace."""
    if isinstance(config, dict | list) and shape.leaf:
        yield path
    elif isinstance(config, dict):
        for name, value in config.items():
            yield from _atomic_paths(value, shape.child(name), f"{path}.{name}")
    elif isinstance(config, list) and shape.item is not None:
        for item in config:
            if isinstance(item, dict):
                yield from _atomic_paths(item, shape.item, f"{path}[]")
