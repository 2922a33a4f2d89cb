"""Execution of steps on the simulated node."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from contextvars import Context
from functools import partial
from typing import Any

from nodeagent.base.simulation.steps import Step
from nodeagent.errors import UncertainVolumeError, VolumeError
from nodeagent.simulation.amounts import cpu_limit
from nodeagent.simulation.apiserver import CONFIG_MAPS, PODS, Rejection
from nodeagent.simulation.config_volumes import config_data
from nodeagent.simulation.evictions import CRITICAL_PRIORITY
from nodeagent.simulation.invariants import Invariants
from nodeagent.simulation.node import MAX_PIDS, NAMESPACE, Node
from nodeagent.simulation.pods import make_debugger, make_pod
from nodeagent.simulation.pressure import MIB
from nodeagent.simulation.runtime_objects import Container, RuntimeProblem

_DEBUGGERS = 2
"""Largest number of ephemeral containers of a pod."""
_IMAGES, _OTHER_IMAGES = 8, 8
_PRIORITIES = (0, 0, 10, 1000)


class Actions:
    """Executes steps; the effect of a step that does not apply, such as the deletion of a missing pod, is none."""

    def __init__(self, seed: object, node: Node, invariants: Invariants) -> None:
        self._seed, self._node, self._invariants = seed, node, invariants
        self._pods = 0
        self.executed: Counter[str] = Counter()

    def execute(self, step: Step) -> None:
        """Execute *step* now."""
        text = " ".join(f"{name}={value}" for name, value in step.arguments.items())
        self._node.trace.add("step", f"{step.kind} {text}".rstrip())
        if getattr(self, step.kind)(**step.arguments) is not False:
            self.executed[step.kind] += 1

    def calm(self) -> None:
        """End all faults, and start the agent if it is not running."""
        node = self._node
        node.network.recover()
        node.runtime.serve()
        node.runtime.release()
        node.runtime.failing.clear()
        node.runtime.network_ready = True
        node.runtime_latency.factor = 1.0
        node.driver.recover()
        node.host.press(pids=0)
        node.memory.recover()
        node.disks.recover()
        self._invariants.observe_pressure()
        node.runtime.report_truly()
        node.logind.down = False
        node.disk.full = node.unruly.raises = node.unruly.hangs = False
        node.loop.crash_at, node.loop.thread_factor = None, 1.0
        node.loop.resume(node.process)
        node.trace.add("calm")

    # --- pods -------------------------------------------------------------------------------------------------

    def create_pod(self, name: str, **shape: Any) -> bool | None:
        self._pods += 1
        if not self._node.is_latest:
            shape.pop("rule", None)
        uid = f"{name}-{self._pods:04d}"
        if self._node.has_pressure:
            # Critical pods have no time to end in a shutdown.
            priorities = _PRIORITIES if self._node.shuts_down else (*_PRIORITIES, CRITICAL_PRIORITY)
            shape["priority"] = random.Random(f"{self._seed}/priority/{uid}").choice(priorities)
            image = random.Random(f"{self._seed}/image/{uid}").randrange(_IMAGES)
            shape["image"] = f"registry.test/app:{image}"
        pod = make_pod(name, uid, **shape)
        try:
            self._node.server.create(PODS, pod, NAMESPACE)
        except Rejection:
            return False
        return None

    def delete_pod(self, name: str, grace: int | None) -> bool | None:
        pod = self._node.server.find(PODS, NAMESPACE, name)
        immediate = pod is not None and 0 in (
            grace,
            pod["spec"]["terminationGracePeriodSeconds"] if grace is None else 1,
        )
        if pod is not None and immediate:
            self._invariants.forced.add(pod["metadata"]["uid"])
        try:
            self._node.server.delete(PODS, NAMESPACE, name, grace)
        except Rejection:
            return False
        return None

    def change_image(self, which: int, code: int) -> bool | None:
        names = [name for (_, name), pod in self._node.server.objects.get(PODS, {}).items() if "static" not in name]
        if not names:
            return False

        def change(pod: dict[str, Any]) -> None:
            pod["spec"]["containers"][0]["image"] = f"registry.test/app:{which % 5}"

        self._node.server.modify(PODS, NAMESPACE, names[which % len(names)], change)
        return None

    def resize_pod(self, which: int, cpu: int) -> bool | None:
        """Change the CPU limit of a container to *cpu* thousandths."""
        pods = self._node.server.objects.get(PODS, {}).items()
        names = [name for (_, name), pod in pods if cpu_limit(pod["spec"]["containers"][0])]
        if not names or not self._node.is_latest:
            return False

        def change(pod: dict[str, Any]) -> None:
            for kind in ("limits", "requests"):
                pod["spec"]["containers"][0]["resources"][kind]["cpu"] = f"{cpu}m"

        self._node.server.modify(PODS, NAMESPACE, names[which % len(names)], change)
        return None

    def put_static(self, name: str, version: int) -> None:
        pod = make_pod(name, "", policy="Always", grace=5, image=f"registry.test/app:{version}")
        pod["metadata"].pop("uid")
        pod["spec"].pop("nodeName")
        aside = self._node.directory / f"{name}.new"
        aside.write_text(json.dumps(pod))
        aside.rename(self._node.manifests / f"{name}.json")

    def remove_static(self, name: str, version: int) -> bool | None:
        path = self._node.manifests / f"{name}.json"
        if not path.exists():
            return False
        path.unlink()
        return None

    def put_map(self, name: str, value: int) -> None:
        server, data = self._node.server, config_data(value)
        if server.find(CONFIG_MAPS, NAMESPACE, name) is None:
            server.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, NAMESPACE)
        else:
            server.modify(CONFIG_MAPS, NAMESPACE, name, lambda obj: obj.update(data=data))

    def delete_map(self, name: str) -> bool | None:
        try:
            self._node.server.delete(CONFIG_MAPS, NAMESPACE, name, 0)
        except Rejection:
            return False
        return None

    def debug_pod(self, which: int, runs: float) -> bool | None:
        """Add an ephemeral container to a pod, which exits after some seconds; 0 is never."""
        pods = self._node.server.objects.get(PODS, {}).items()
        names = [name for (_, name), pod in pods if "static" not in name and len(_debuggers(pod)) < _DEBUGGERS]
        if not names:
            return False

        def change(pod: dict[str, Any]) -> None:
            known = pod["spec"].setdefault("ephemeralContainers", [])
            known.append(make_debugger(f"debug-{len(known)}", runs))

        self._node.server.modify(PODS, NAMESPACE, names[which % len(names)], change)
        return None

    # --- events on the node -----------------------------------------------------------------------------------

    def remove_images(self) -> None:
        """Remove the images that no container uses, as an operator does."""
        runtime = self._node.runtime
        used = {container.config.image.image for container in runtime.containers.values()}
        self._node.disks.remove_images([name for name in runtime.images if name not in used])
        self._invariants.observe_pressure()

    def exit_container(self, which: int, code: int) -> bool | None:
        if (container := self._container(which)) is None:
            return False
        self._node.runtime.exit(container, code)
        return None

    def break_container(self, which: int) -> bool | None:
        """Make the liveness and readiness probes of a container fail until it ends."""
        if (container := self._container(which)) is None:
            return False
        container.broken = True
        return None

    def misreport_sandbox(self, which: int, seconds: float) -> bool | None:
        """Make the runtime report that a sandbox is not ready, although it is."""
        if (container := self._container(which)) is None:
            return False
        container.sandbox.misreported = True
        self._delay_stops(seconds, lambda: setattr(container.sandbox, "misreported", False))
        return None

    def misreport_container(self, which: int, seconds: float) -> bool | None:
        """Make the runtime report that the state of a container is unknown, although it runs."""
        if (container := self._container(which)) is None:
            return False
        container.misreported = container.was_misreported = True
        self._delay_stops(seconds, lambda: setattr(container, "misreported", False))
        return None

    def end_sandbox(self, which: int, code: int) -> bool | None:
        container = self._container(which)
        if container is None:
            return False
        runtime = self._node.runtime
        for each in runtime.running():
            if each.sandbox is container.sandbox:
                runtime.exit(each, 137)
        container.sandbox.ready = False
        return None

    def crash_agent(self, after: int, restart: float) -> bool | None:
        node = self._node
        if not node.process:
            return False

        def crash() -> None:
            node.crash()
            node.loop.call_later(restart, self._start, context=Context())

        node.loop.on_crash = crash
        node.loop.crash_at = after + 1
        return None

    def stop_agent(self, after: int, restart: float) -> bool | None:
        node = self._node
        if node.agent is None:
            return False
        node.agent.stop()
        node.loop.call_later(restart + 30, self._start, context=Context())
        return None

    def suspend_agent(self, seconds: float) -> bool | None:
        """Suspend the agent for some time, as with SIGSTOP."""
        node = self._node
        if not node.process:
            return False
        process = node.process
        node.loop.pause(process)
        self._delay_stops(seconds, lambda: node.loop.resume(process))
        return None

    def lose_power(self, after: int, restart: float) -> None:
        node = self._node
        node.crash()
        node.runtime.lose_power()
        node.driver.lose_power()
        node.trace.add("disk", f"{node.disk.lose_power()} files lost")
        node.loop.call_later(restart, self._start, context=Context())

    def shut_down(self, restart: float, cancelled_after: float) -> bool | None:
        """Shut the node down and start it again, unless the shutdown is cancelled after some seconds; 0 is never."""
        node, process = self._node, self._node.process
        started = node.loop.time()

        def power_off(released: bool) -> None:
            if released and node.process == process:
                self._invariants.verify_shut_down(started)
            node.crash()
            node.runtime.lose_power()
            node.driver.lose_power()
            node.loop.call_later(restart, self._start, context=Context())

        if not node.logind.prepare(power_off):
            return False
        self._invariants.shutdowns.append(started)
        if cancelled_after:
            self._after(cancelled_after, node.logind.cancel)
        return None

    def lose_bus(self, seconds: float) -> None:
        """Close the connections to the system bus, and reject new ones for some time."""
        logind = self._node.logind
        logind.down = True
        logind.disconnect()
        self._after(seconds, lambda: setattr(logind, "down", False))

    def _start(self) -> None:
        if not self._node.process:
            self._node.start()

    def _container(self, which: int) -> Container | None:
        running = self._node.runtime.running()
        return running[which % len(running)] if running else None

    # --- API server and network -------------------------------------------------------------------------------

    def stop_api(self, seconds: float) -> None:
        network = self._node.network
        network.disconnect()
        self._after(seconds, lambda: setattr(network, "down", False))

    def silence_api(self, seconds: float) -> None:
        network = self._node.network
        network.silent = True
        self._after(seconds, network.speak)

    def reject_requests(self, code: int, probability: float, seconds: float) -> None:
        rejections = self._node.network.rejections
        rejections[code] = probability
        self._after(seconds, lambda: rejections.pop(code, None))

    def lose_responses(self, probability: float, seconds: float) -> None:
        network = self._node.network
        network.lost = probability
        self._after(seconds, lambda: setattr(network, "lost", 0.0))

    def duplicate_events(self, probability: float, seconds: float) -> None:
        network = self._node.network
        network.duplicated = probability
        self._after(seconds, lambda: setattr(network, "duplicated", 0.0))

    def slow_api(self, factor: float, seconds: float) -> None:
        latency = self._node.network.latency
        latency.factor = factor
        self._after(seconds, lambda: setattr(latency, "factor", 1.0))

    def expire_certificate(self, seconds: float) -> None:
        network = self._node.network
        network.certificate_error = (
            "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"
        )
        self._node.server.end_watches()
        self._after(seconds, lambda: setattr(network, "certificate_error", ""))

    def end_watches(self) -> None:
        self._node.server.end_watches()

    def compact(self) -> None:
        self._node.server.compact()
        self._node.server.end_watches()

    # --- runtime ----------------------------------------------------------------------------------------------

    def stop_runtime(self, seconds: float) -> None:
        runtime = self._node.runtime
        runtime.stop_serving()
        self._delay_stops(seconds, runtime.serve)

    def hang_runtime(self, call: str, seconds: float) -> None:
        runtime = self._node.runtime
        runtime.hanging.add(call)
        self._delay_stops(seconds, runtime.release)

    def fail_runtime(self, call: str, probability: float, seconds: float) -> None:
        failing = self._node.runtime.failing
        failing[call] = probability
        self._delay_stops(seconds, lambda: failing.pop(call, None))

    def disturb_images(self, call: str, hangs: bool, seconds: float) -> None:
        """Make a call of the image service fail or hang."""
        if hangs:
            self.hang_runtime(call, seconds)
        else:
            self.fail_runtime(call, 1.0, seconds)

    def slow_runtime(self, factor: float, seconds: float) -> None:
        latency = self._node.runtime_latency
        latency.factor = factor
        self._delay_stops(seconds, lambda: setattr(latency, "factor", 1.0))

    def fail_driver(self, call: str, uncertain: bool, seconds: float) -> None:
        driver = self._node.driver
        error = UncertainVolumeError if uncertain else VolumeError
        driver.fail(call, error("injected failure"), times=None)
        self._after(seconds, partial(driver.recover, call))

    def hang_driver(self, call: str, seconds: float) -> None:
        driver = self._node.driver
        driver.hang(call)
        self._after(seconds, partial(driver.recover, call))

    def lose_network(self, seconds: float) -> None:
        runtime = self._node.runtime
        runtime.network_ready = False
        self._after(seconds, lambda: setattr(runtime, "network_ready", True))

    def fill_disk(self, seconds: float) -> None:
        disk = self._node.disk
        disk.full = True
        self._after(seconds, lambda: setattr(disk, "full", False))

    def slow_disk(self, factor: float, seconds: float) -> None:
        loop = self._node.loop
        loop.thread_factor = factor
        self._delay_stops(seconds, lambda: setattr(loop, "thread_factor", 1.0))

    def exhaust_pids(self, seconds: float) -> None:
        host, now = self._node.host, self._node.loop.time()
        host.press(pids=MAX_PIDS)
        self._invariants.pressures.append((now, now + seconds))
        self._invariants.observe_pressure()

        def recover() -> None:
            host.press(pids=0)
            self._invariants.observe_pressure()

        self._after(seconds, recover)

    def use_memory(self, available: int, seconds: float) -> None:
        """Use memory in other processes until only *available* MiB remain, for some time."""
        node, invariants = self._node, self._invariants
        node.memory.leave(available * MIB)
        invariants.observe_pressure()

        def recover() -> None:
            node.memory.recover()
            invariants.observe_pressure()

        self._after(seconds, recover)

    def use_disk(self, disk: str, percent: int, seconds: float) -> None:
        """Write files until at most *percent* of a disk remain, for some time."""
        node, invariants = self._node, self._invariants
        node.disks.leave(disk, percent)
        invariants.observe_pressure()

        def recover() -> None:
            node.disks.recover()
            invariants.observe_pressure()

        self._after(seconds, recover)

    def pull_images(self, first: int, count: int) -> None:
        """Pull images that no pod uses, as an operator does."""
        for number in range(first, first + count):
            with contextlib.suppress(RuntimeProblem):
                self._node.runtime.add_image(f"registry.test/other:{number % _OTHER_IMAGES}")

    def disturb_plugin(self, hangs: bool, seconds: float) -> None:
        name, plugin = "hangs" if hangs else "raises", self._node.unruly
        setattr(plugin, name, True)
        self._after(seconds, lambda: setattr(plugin, name, False))

    def jump_clock(self, seconds: float) -> None:
        self._node.clock.jump(seconds)

    def _delay_stops(self, seconds: float, end: Any) -> None:
        """End a fault, because of which containers may be stopped later than intended."""
        now = self._node.loop.time()
        self._invariants.delays.append((now, now + seconds))
        self._after(seconds, end)

    def _after(self, seconds: float, end: Any) -> None:
        self._node.loop.call_later(seconds, end, context=Context())


def _debuggers(pod: dict[str, Any]) -> list[Any]:
    return list(pod["spec"].get("ephemeralContainers") or ())
