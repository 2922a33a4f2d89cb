"""Treatment of unknown fields in configuration files.

An unknown field may be one of a newer release, so it is ignored with a warning. It is an error where ignoring it could
weaken the security of the node: below ``authentication`` and ``authorization``, and where it is a misspelled security
setting. A name of the other file format is always an error, because its meaning is certain.
"""

from __future__ import annotations

from nodeagent.base.similarity import similarity

_SUBTREES = ("authentication.", "authorization.")
_SECURITY = (
    "authentication",
    "authorization",
    "imagePullCredentialsVerificationPolicy",
    "podPidsLimit",
    "preloadedImagesVerificationAllowlist",
    "protectKernelDefaults",
    "seccompDefault",
    "tlsCertFile",
    "tlsCipherSuites",
    "tlsCurvePreferences",
    "tlsMinVersion",
    "tlsPrivateKeyFile",
)
_SIMILAR = 0.85


class UnknownField(str):
    """Rule violated by an unknown field; *certain* if only a mistake can be the reason."""

    __slots__ = ("certain",)

    certain: bool

    @classmethod
    def of(cls, rule: str, *, certain: bool) -> UnknownField:
        """Return the rule with its property."""
        created = cls(rule)
        created.certain = certain
        return created


def is_tolerated(path: str, rule: str) -> bool:
    """Return whether the field at *path* that violates *rule* is ignored with a warning."""
    if not isinstance(rule, UnknownField) or rule.certain or path.startswith(_SUBTREES):
        return False
    return not any(similarity(path.lower(), name.lower()) >= _SIMILAR for name in _SECURITY)
