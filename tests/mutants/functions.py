"""Mutation of loaded modules: replace the code of live functions, so that nothing is imported again."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType

from tests.mutants.sites import ROOT, Mutant, mutate


class LoadedFunctions:
    """The functions among *objects*, by the path of their module.

    :param objects: objects of this process, or ``None`` for all of them.
    """

    def __init__(self, objects: Sequence[object] | None = None) -> None:
        self._by_path: defaultdict[str, list[FunctionType]] = defaultdict(list)
        for found in _all_objects() if objects is None else objects:
            if type(found) is FunctionType:
                self._by_path[found.__code__.co_filename].append(found)

    def mutate(self, mutant: Mutant) -> bool:
        """Replace the functions that contain the condition of *mutant*.

        :returns: ``False`` if no function contains it: it is evaluated while its module is imported.
        """
        path = str(ROOT / mutant.path)
        source = (ROOT / mutant.path).read_text(encoding="utf-8")
        tree = mutate(ast.parse(source), mutant.index, mutant.part)
        changed = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        replacements = dict(_differences(compile(source, path, "exec", dont_inherit=True), changed))
        functions = [function for function in self._by_path[path] if function.__code__ in replacements]
        for function in functions:
            function.__code__ = replacements[function.__code__]
        return bool(functions)


def _all_objects() -> list[object]:
    gc.unfreeze()  # The collector does not list frozen objects, such as those of collected tests.
    objects = gc.get_objects()
    gc.freeze()
    return objects


def _differences(original: CodeType, changed: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the code that differs: that of the condition, and of all functions and classes around it."""
    if original == changed:
        return
    yield original, changed
    for before, after in zip(_nested(original), _nested(changed), strict=True):
        yield from _differences(before, after)


def _nested(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]
