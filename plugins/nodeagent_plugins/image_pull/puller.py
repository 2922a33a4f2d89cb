"""Image puller: pull policy, back-off, credentials, and limited and shared pulls."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, NoReturn

from msgspec import field

from nodeagent.base.aio import BackoffTable, TokenBucket
from nodeagent.base.duration import Duration
from nodeagent.base.metrics import Counter, Histogram
from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.contracts.events import EventType
from nodeagent.contracts.images import CredentialProvider, PulledImage, PullInProgress
from nodeagent.contracts.pull_progress import PullProgress
from nodeagent.contracts.runtime import Credentials, Image, SandboxConfig
from nodeagent.contracts.runtime_class import read_runtime_handler
from nodeagent.errors import ImageError, NodeAgentError
from nodeagent.model.image_name import ImageName, default_pull_policy, parse_image_name, with_default_tag
from nodeagent.model.meta import ObjectReference
from nodeagent.model.pod import Container, ContainerKind, ImageVolume, Pod, container_field_path
from nodeagent_plugins.image_pull.access import ImageAccess
from nodeagent_plugins.image_pull.credential_lookup import CredentialSources
from nodeagent_plugins.image_pull.size_class import size_class

if TYPE_CHECKING:
    from nodeagent.contracts.context import VolumesContext

_log = logging.getLogger(__name__)

PROGRESS_SECONDS = 30.0
_PULL_SECONDS = (1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600)
REQUESTS = Counter(
    "image_manager_ensure_image_requests_total",
    "Number of ensure-image requests processed by the kubelet.",
    ("pull_policy", "present_locally", "pull_required"),
)
DURATIONS = Histogram(
    "image_pull_duration_seconds",
    "Duration in seconds to pull an image.",
    ("image_size_in_bytes",),
    bounds=_PULL_SECONDS,
)
_Credentials = Callable[[], Awaitable[tuple[Credentials, ...]]]
"""Function that returns the credentials of a pod for an image."""
_SPECIAL_REASONS = re.compile(r"(?:^|: )(RegistryUnavailable|SignatureValidationFailed)\b:?\s*(.*)", re.DOTALL)


class _Shared(MutableStruct):
    """A pull in progress and the pods that wait for it, one entry per container."""

    task: asyncio.Task[_Pulled]
    image: str
    since: float
    pull_started: asyncio.Event
    progress: PullProgress
    waiters: list[str] = field(default_factory=list)


class _Pulled(Struct, frozen=True):
    """Result of a pull: *ref* or *error*."""

    ref: str = ""
    error: str = ""
    pulling_seconds: float = 0.0
    credential: Credentials | None = None
    """The credential that the registry accepted; ``None`` for an anonymous pull."""


class Puller:
    """Implements :class:`~nodeagent.contracts.images.ImagePuller`.

    A failure is recorded as two upstream events: the details, then ``Failed`` with "Error: <reason>". Containers
    with the same image and credentials share a pull; it is cancelled when the last one is. A long pull is reported
    repeatedly with the elapsed time and the received amount.

    :param access: verifies that a pod may use an image that is present; ``None`` permits all.

    spec: config.serializeImagePulls, config.maxParallelImagePulls, config.registryPullQPS, config.registryBurst
    """

    def __init__(
        self, context: VolumesContext, providers: Sequence[CredentialProvider], access: ImageAccess | None = None
    ) -> None:
        config = context.config
        self._context, self._sources, self.access = context, CredentialSources(context, providers), access
        self._backoff = BackoffTable(context.clock)
        self._last_errors: dict[str, str] = {}
        """Reason of the last failure by key, for errors during the back-off."""
        self._rate = TokenBucket(config.registry_pull_qps, config.registry_burst, context.clock)
        self._slots = _slots(config.serialize_image_pulls, config.max_parallel_image_pulls)
        self._in_flight: dict[Hashable, _Shared] = {}
        self._resolving: dict[object, PullInProgress] = {}
        """Pulls whose credentials are being resolved."""

    async def ensure(
        self, pod: Pod, kind: ContainerKind, container: Container, sandbox: SandboxConfig | None = None
    ) -> PulledImage:
        """Return the image; pull it first if the policy requires it.

        :raises ImageError: with the waiting reason; events have been recorded.
        """
        regarding = pod.reference(container_field_path(kind, container.name))
        return await self._ensure(pod, regarding, container.image, container.image_pull_policy, sandbox)

    async def ensure_volume_image(
        self, pod: Pod, volume: ImageVolume, sandbox: SandboxConfig | None = None
    ) -> PulledImage:
        """Return the image of a volume; pull it first if the policy requires it.

        :raises ImageError: with the waiting reason; events have been recorded.
        """
        return await self._ensure(pod, pod.reference(), volume.reference, volume.pull_policy, sandbox)

    async def _ensure(
        self, pod: Pod, regarding: ObjectReference, shown: str, policy: str, sandbox: SandboxConfig | None
    ) -> PulledImage:
        try:
            name = parse_image_name(shown)
        except ValueError as error:
            text = f'Failed to apply default image tag "{shown}": couldn\'t parse image name: {error}'
            self._fail(regarding, "InspectFailed", text, ImageError(text, reason="InvalidImageName"))
        image = with_default_tag(shown, name)
        handler = await self._runtime_handler(pod, regarding, image)
        policy = policy or default_pull_policy(name)
        credentials = self._lookup(pod, image, name)
        present = None
        if policy != "Always":
            present = await self._inspect(regarding, image, handler)
            if present is not None and not await self._must_pull(pod, shown, present, credentials):
                _count_request(policy, present=True, required=False)
                note = f'Container image "{shown}" already present on machine'  # wording: ok
                if self.access is not None:
                    note += " and can be accessed by the pod"
                self._context.recorder.record(regarding, EventType.NORMAL, "Pulled", note)
                return PulledImage(present.id, present)
            if policy == "Never":
                _count_request(policy, present=present is not None, required=present is not None or None)
                # The text is the same for an image of other pods, so that its presence is not disclosed.
                text = f'Container image "{shown}" is not present with pull policy of Never'
                self._fail(regarding, "ErrImageNeverPull", text, ImageError(text, reason="ErrImageNeverPull"))
        _count_request(policy, present=None if policy == "Always" else present is not None, required=True)
        return await self._pull(pod, regarding, shown, image, credentials, sandbox, handler)

    def pulls(self) -> Sequence[PullInProgress]:
        """Return the pulls in progress, oldest first."""
        pulls = [
            PullInProgress(one.image, one.since, not one.pull_started.is_set(), tuple(dict.fromkeys(one.waiters)))
            for one in self._in_flight.values()
        ]
        return sorted([*pulls, *self._resolving.values()], key=lambda pull: pull.since)

    def backoff_seconds_left(self, pod: Pod, container: Container) -> float:
        """Return the remaining back-off after failed pulls of the container's image, in seconds."""
        return self._backoff.remaining(f"{pod.uid}_{container.image}")

    async def _pull(
        self,
        pod: Pod,
        regarding: ObjectReference,
        shown: str,
        image: str,
        find_credentials: _Credentials,
        sandbox: SandboxConfig | None,
        handler: str,
    ) -> PulledImage:
        record, key = self._context.recorder.record, f"{pod.uid}_{shown}"
        if self._backoff.remaining(key) > 0:
            text = f'Back-off pulling image "{shown}"'
            record(regarding, EventType.NORMAL, "BackOff", text)
            if (last := self._last_errors.get(key)) is not None:
                text = f"{text}: {last}"
            self._fail(regarding, "", "", ImageError(text, reason="ImagePullBackOff"))
        record(regarding, EventType.NORMAL, "Pulling", f'Pulling image "{shown}"')
        started = self._context.clock.now()
        progress = self._context.tasks.start(self._report_progress(regarding, pod, shown, image), f"pulling/{image}")
        found = None
        try:
            credentials = await find_credentials()
            async with self.access.pulling(shown) if self.access is not None else nullcontext():
                pulled = await self._shared_pull(pod, image, credentials, sandbox, handler)
                if not pulled.error:
                    found = await self._inspect_pulled(regarding, pulled.ref, image, handler)
                    if found is not None and self.access is not None:
                        await self.access.record_pull(shown, found.id, pulled.credential)
        except ValueError as error:  # An invalid pull secret.
            pulled = _Pulled(error=str(error))
        except OSError as error:
            pulled = _Pulled(error=f"failed to record image pull: {error}")
        finally:
            progress.cancel()
        if pulled.error:
            self._backoff.step(key)
            self._forget_old()
            failure = _pull_error(shown, pulled.error)
            self._last_errors[key] = f"{failure.reason}: {failure}"
            _log.error("Failed to pull image", extra={"pod": pod.full_name, "image": shown, "err": pulled.error})
            self._fail(regarding, "Failed", f'Failed to pull image "{shown}": {pulled.error}', failure)
        self._forget_old()
        waited = _seconds_text(self._context.clock.now() - started)
        took = _seconds_text(pulled.pulling_seconds)
        if found is None:
            text = f'Failed to inspect image "{shown}": image missing after the pull'
            self._fail(regarding, "InspectFailed", text, ImageError(text, reason="ImageInspectError"))
        DURATIONS.observe(self._context.clock.now() - started, size_class(found.size_bytes))
        size = f" Image size: {found.size_bytes} bytes." if found.size_bytes else ""
        note = f'Successfully pulled image "{shown}" in {took} ({waited} including waiting).{size}'
        record(regarding, EventType.NORMAL, "Pulled", note)
        return PulledImage(pulled.ref, found)

    def _forget_old(self) -> None:
        """Drop the back-offs and errors of images that have not been requested for a long time."""
        self._backoff.collect()
        self._last_errors = {key: error for key, error in self._last_errors.items() if self._backoff.pause(key)}

    async def _must_pull(self, pod: Pod, shown: str, present: Image, credentials: _Credentials) -> bool:
        """Return whether *pod* must pull an image that is present, because its credentials have to be verified."""
        if self.access is None:
            return False
        try:
            return await self.access.must_pull(shown, present, credentials)
        except ValueError:  # An invalid pull secret; the pull reports it.
            return True

    async def _report_progress(self, regarding: ObjectReference, pod: Pod, shown: str, image: str) -> None:
        """Record events about a pull in progress, at increasing intervals."""
        clock, pause = self._context.clock, PROGRESS_SECONDS
        started = clock.now()
        while True:
            await clock.sleep(pause)
            took = _seconds_text(clock.now() - started)
            note = f'Still pulling image "{shown}" after {took}{self._far(pod, image)}'
            self._context.recorder.record(regarding, EventType.NORMAL, "Pulling", note)
            pause *= 2

    def _far(self, pod: Pod, image: str) -> str:
        """Return the progress of *pod*'s pull as the end of a sentence; empty if unknown."""
        pulls = self._in_flight.values()
        own = next((one for one in pulls if one.image == image and pod.full_name in one.waiters), None)
        if own is None:
            return ""
        if not own.pull_started.is_set():
            return ", queued behind other pulls"
        if own.progress.supported is False:
            return ", the runtime does not report progress"
        others = sum(one.pull_started.is_set() for one in pulls) - 1
        shared = f" together with {others} other pulls" if others else ""
        return f", {own.progress} received{shared}" if own.progress.total_bytes else ""

    async def _runtime_handler(self, pod: Pod, regarding: ObjectReference, image: str) -> str:
        """Return the runtime handler to pull for; empty unless the feature gate is on."""
        if not self._context.gates.enabled("RuntimeClassInImageCriApi"):
            return ""
        try:
            return await read_runtime_handler(self._context.api, pod)
        except NodeAgentError as error:
            text = f'Failed to pull image "{image}": {error}'
            self._fail(regarding, "Failed", text, ImageError(text), error)

    async def _inspect(self, regarding: ObjectReference, image: str, handler: str) -> Image | None:
        try:
            return await self._context.images.image_status(image, runtime_handler=handler)
        except NodeAgentError as error:
            text = f'Failed to inspect image "{image}": {error}'
            self._fail(regarding, "InspectFailed", text, ImageError(text, reason="ImageInspectError"), error)

    async def _inspect_pulled(self, regarding: ObjectReference, ref: str, image: str, handler: str) -> Image | None:
        return await self._inspect(regarding, ref, handler) or await self._inspect(regarding, image, handler)

    def _lookup(self, pod: Pod, image: str, name: ImageName) -> _Credentials:
        """Return a function that looks up the pod's credentials when it is called first."""
        found: tuple[Credentials, ...] | None = None

        async def resolve() -> tuple[Credentials, ...]:
            nonlocal found
            if found is None:
                found = await self._resolve_credentials(pod, image, name)
            return found

        return resolve

    async def _resolve_credentials(self, pod: Pod, image: str, name: ImageName) -> tuple[Credentials, ...]:
        """Return the credentials to try; lists the pull as resolving credentials while providers run."""
        marker = object()
        self._resolving[marker] = PullInProgress(
            image, self._context.clock.now(), False, (pod.full_name,), resolving_credentials=True
        )
        try:
            return await self._sources.find(pod, name)
        finally:
            del self._resolving[marker]

    async def _shared_pull(
        self, pod: Pod, image: str, credentials: tuple[Credentials, ...], sandbox: SandboxConfig | None, handler: str
    ) -> _Pulled:
        # Credentials are part of the key, so that no pod gets an image through another pod's secret.
        key = (image, credentials, pod.spec.runtime_class_name)
        shared = self._in_flight.get(key)
        if shared is None:
            pull_started, progress = asyncio.Event(), PullProgress()
            pull = self._pull_now(image, credentials, sandbox, handler, pull_started, progress)
            task = self._context.tasks.start(pull, f"pull/{image}")
            shared = self._in_flight[key] = _Shared(task, image, self._context.clock.now(), pull_started, progress)
            task.add_done_callback(lambda _: self._forget(key, shared))
        shared.waiters.append(pod.full_name)
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.waiters.remove(pod.full_name)
            if not shared.waiters:
                self._forget(key, shared)
                shared.task.cancel()

    def _forget(self, key: Hashable, shared: _Shared) -> None:
        if self._in_flight.get(key) is shared:
            del self._in_flight[key]

    async def _pull_now(
        self,
        image: str,
        credentials: tuple[Credentials, ...],
        sandbox: SandboxConfig | None,
        handler: str,
        pull_started: asyncio.Event,
        progress: PullProgress,
    ) -> _Pulled:
        """Try each credential in turn, or an anonymous pull without any; the event is set when the pull starts."""
        async with self._slots:
            pull_started.set()
            if not self._rate.try_take():
                return _Pulled(error="pull QPS exceeded")
            started, errors = self._context.clock.now(), []
            polling = progress.poll(self._context.images, self._context.clock.sleep)
            progress_task = self._context.tasks.start(polling, f"progress/{image}")
            try:
                for credential in credentials or (None,):
                    try:
                        ref = await self._context.images.pull_image(image, credential, sandbox, runtime_handler=handler)
                    except NodeAgentError as error:
                        errors.append(str(error))
                    else:
                        seconds = self._context.clock.now() - started
                        return _Pulled(ref, pulling_seconds=seconds, credential=credential)
            finally:
                progress_task.cancel()
        distinct = list(dict.fromkeys(errors))
        return _Pulled(error=distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")

    def _fail(
        self,
        regarding: ObjectReference,
        event: str,
        note: str,
        error: ImageError,
        cause: BaseException | None = None,
    ) -> NoReturn:
        """Record the event about the failure and the one for the container, and raise the error."""
        record = self._context.recorder.record
        if event:
            record(regarding, EventType.WARNING, event, note)
        record(regarding, EventType.WARNING, "Failed", f"Error: {error.reason}")
        raise error from cause


def _slots(serialize: bool, parallel: int | None) -> AbstractAsyncContextManager[object]:
    """Return the limiter of parallel pulls: one pull, *parallel* pulls, or unlimited."""
    if serialize:
        return asyncio.Semaphore(1)
    return asyncio.Semaphore(parallel) if parallel else nullcontext()


def _pull_error(image: str, text: str) -> ImageError:
    """Return the error of a failed pull; some runtimes state the reason in their message."""
    special = _SPECIAL_REASONS.search(text)
    if special is None:
        return ImageError(text)
    reason, rest = special.groups()
    cause = "the registry is unavailable" if reason == "RegistryUnavailable" else "the signature validation failed"
    return ImageError(f"image pull failed for {image} because {cause}" + (f": {rest}" if rest else ""), reason=reason)


def _count_request(policy: str, *, present: bool | None, required: bool | None) -> None:
    texts = ("unknown" if value is None else str(value).lower() for value in (present, required))
    REQUESTS.inc(policy.lower(), *texts)


def _seconds_text(seconds: float) -> str:
    return str(Duration(int(seconds * 1000) * 1_000_000))
