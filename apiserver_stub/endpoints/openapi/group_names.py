"""Names of API groups in operation IDs and tags of published documents."""

from __future__ import annotations


class GroupNames:
    """Names of API groups, without *api_domain*, the domain of bundled groups."""

    def __init__(self, api_domain: str) -> None:
        self._suffix = f".{api_domain}"

    def prefix(self, group: str, version: str = "") -> str:
        """Return the names of *group* and *version* in camel case, as operation IDs have them."""
        parts = group.removesuffix(self._suffix).split(".") if group else ["core"]
        name = "".join(word.capitalize() for part in parts for word in part.split("-"))
        return f"{name}{version.capitalize()}"

    def tag(self, group: str, version: str = "") -> str:
        """Return the tag of operations of *group* and *version*."""
        name = self.prefix(group)
        return f"{name[0].lower()}{name[1:]}" + (f"_{version}" if version else "")
