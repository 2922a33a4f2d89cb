"""ServiceAccounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.columns import AGE, NAME
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_WITHOUT_SECRETS_COLUMN = Release(1, 35)


class ServiceAccountStrategy(Strategy):
    """ServiceAccounts; references to secrets keep only the name."""

    def prepare_create(self, new: Object) -> None:
        if secrets := new.get("secrets"):
            new["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in secrets]

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        self.prepare_create(new)


def resources(settings: KindSettings) -> list[Resource]:
    counts_secrets = settings.compatibility_version < _WITHOUT_SECRETS_COLUMN
    secrets = (Column("Secrets", lambda obj: len(obj.get("secrets") or ())),) if counts_secrets else ()
    return [
        Resource(
            "",
            "v1",
            "ServiceAccount",
            "serviceaccounts",
            short_names=("sa",),
            strategy=ServiceAccountStrategy(),
            subresources=(
                Subresource(
                    "token",
                    ("create",),
                    "TokenRequest",
                    settings.identity.group("authentication"),
                    "v1",
                ),
            ),
            columns=(NAME, *secrets, AGE),
            returns_deleted=True,
        )
    ]
