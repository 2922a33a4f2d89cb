// Overview of the cluster: nodes, pods and events, each listed once and then watched.

import { age, request, requestJson, badge, byId, fill, lines, make, notice, RequestError, signIn } from "./page.js";

const KINDS = ["nodes", "pods", "events"];
const EVENTS_SHOWN = 100;
const PERIOD_MS = 10000;
const RETRY_MS = 2000;

const objects = new Map(KINDS.map((kind) => [kind, new Map()]));
const forbidden = new Map();
const watchErrors = new Map();
let drawing = false;

signIn(async () => {
  const results = await Promise.allSettled(KINDS.map(list));
  const errors = results.filter((result) => result.status === "rejected").map((result) => result.reason);
  const fatal = errors.find((error) => !(error instanceof RequestError) || error.status !== 403)
    || (errors.length === KINDS.length && errors[0]);
  if (fatal) throw fatal;
  results.forEach((result, i) => {
    if (result.status === "fulfilled") watch(KINDS[i], result.value);
    else forbidden.set(KINDS[i], result.reason.message);
  });
  const { gitVersion } = await requestJson("/version").catch(() => ({}));
  byId("version").textContent = gitVersion || "";
  byId("filter").addEventListener("input", draw);
  setInterval(draw, PERIOD_MS);
  draw();
});

/** List a kind, and return the resource version for the subsequent watch. */
async function list(kind) {
  const response = await requestJson(`/api/v1/${kind}`);
  objects.set(kind, new Map(response.items.map((item) => [item.metadata.uid, item])));
  return response.metadata.resourceVersion;
}

/** Watch a kind forever; list it again after an error. */
async function watch(kind, version) {
  for (;;) {
    try {
      const query = `watch=1&allowWatchBookmarks=true&resourceVersion=${encodeURIComponent(version)}`;
      const response = await request(`/api/v1/${kind}?${query}`);
      watchErrors.delete(kind);
      draw();
      for await (const line of lines(response)) {
        const { type, object } = JSON.parse(line);
        if (type === "ERROR") throw new RequestError(object.code, object.message);
        version = object.metadata.resourceVersion;
        if (type === "BOOKMARK") continue;
        if (type === "DELETED") objects.get(kind).delete(object.metadata.uid);
        else objects.get(kind).set(object.metadata.uid, object);
        draw();
      }
    } catch (error) {
      if (error instanceof RequestError && error.status === 401) location.reload();
      watchErrors.set(kind, error.message);
      draw();
      await new Promise((done) => setTimeout(done, RETRY_MS));
      version = await list(kind).catch(() => version);
    }
  }
}

/** Redraw the page, only once for a burst of changes. */
function draw() {
  if (drawing) return;
  drawing = true;
  setTimeout(() => {
    drawing = false;
    const [nodes, pods, events] = KINDS.map((kind) => [...objects.get(kind).values()]);
    byId("live").textContent = watchErrors.size ? "Connecting" : "Live";
    byId("live").className = `badge ${watchErrors.size ? "warn" : "good"}`;
    notice(watchErrors.size ? `No response from the server: ${[...watchErrors.values()][0]}` : "");
    showCounts(nodes, pods, events);
    showNodes(nodes, pods);
    showPods(pods);
    showEvents(events);
  }, 100);
}

const isReady = (node) => (node.status?.conditions || []).some((c) => c.type === "Ready" && c.status === "True");
const lastTimestamp = (event) => event.series?.lastObservedTime || event.lastTimestamp || event.eventTime
  || event.metadata.creationTimestamp;
const lastTime = (event) => new Date(lastTimestamp(event)).getTime();
const placeholder = (kind, text) => (forbidden.has(kind) ? `Unavailable: ${forbidden.get(kind)}` : text);

function showCounts(nodes, pods, events) {
  const phase = (name) => pods.filter((pod) => pod.status?.phase === name).length;
  const recent = events.filter((event) => event.type === "Warning" && Date.now() - lastTime(event) < 3600e3).length;
  const counts = [
    ["Nodes", nodes.length, `${nodes.filter(isReady).length} ready`],
    ["Pods", pods.length, `${phase("Running")} running`],
    ["Pending", phase("Pending"), "pods"],
    ["Warnings", recent, "in the last hour"],
  ];
  byId("counts").replaceChildren(...counts.map(([name, value, detail]) => make("div", { class: "card" },
    make("h2", {}, name), make("span", { class: "figure" }, String(value)), " ", make("span", { class: "soft" }, detail))));
}

function showNodes(nodes, pods) {
  const rows = nodes.sort(byName).map((node) => {
    const name = node.metadata.name;
    const ready = isReady(node);
    const addresses = (node.status?.addresses || []).filter((a) => a.type === "InternalIP").map((a) => a.address);
    const status = make("td", {}, badge(ready ? "Ready" : "NotReady", ready ? "good" : "bad"));
    if (node.spec?.unschedulable) status.append(" ", badge("SchedulingDisabled", "warn"));
    return make("tr", {}, make("td", {}, name), status,
      make("td", { class: "number" }, String(pods.filter((pod) => pod.spec?.nodeName === name).length)),
      make("td", {}, node.status?.nodeInfo?.kubeletVersion || ""), make("td", { class: "name" }, addresses.join(", ")),
      make("td", { class: "number soft" }, age(node.metadata.creationTimestamp)));
  });
  fill(byId("nodes"), rows, placeholder("nodes", "No nodes."));
}

/** Return the status of a pod in one word, similar to `kubectl get pods`, with the kind of its badge. */
function statusOf(pod) {
  if (pod.metadata.deletionTimestamp) return ["Terminating", "warn"];
  const statuses = [...(pod.status?.initContainerStatuses || []), ...(pod.status?.containerStatuses || [])];
  const waiting = statuses.map((status) => status.state?.waiting?.reason).find(Boolean);
  if (waiting) return [waiting, /Err|BackOff|Invalid|Failed/.test(waiting) ? "bad" : "warn"];
  const phase = pod.status?.phase || "Pending";
  if (phase === "Failed") return [pod.status.reason || phase, "bad"];
  const ready = (pod.status?.conditions || []).some((c) => c.type === "Ready" && c.status === "True");
  const running = ready ? "good" : "warn";
  return [pod.status?.reason || phase, phase === "Running" ? running : phase === "Pending" ? "warn" : ""];
}

const byName = (a, b) => (a.metadata.namespace || "").localeCompare(b.metadata.namespace || "")
  || a.metadata.name.localeCompare(b.metadata.name);

function showPods(pods) {
  const filter = byId("filter").value.trim().toLowerCase();
  const text = (pod) => `${pod.metadata.namespace}/${pod.metadata.name} ${pod.spec?.nodeName} ${statusOf(pod)[0]}`;
  const matching = pods.filter((pod) => !filter || text(pod).toLowerCase().includes(filter)).sort(byName);
  const rows = matching.slice(0, 500).map((pod) => {
    const statuses = pod.status?.containerStatuses || [];
    return make("tr", {},
      make("td", {}, make("div", {}, pod.metadata.name), make("div", { class: "soft" }, pod.metadata.namespace)),
      make("td", {}, badge(...statusOf(pod))),
      make("td", { class: "number" }, `${statuses.filter((s) => s.ready).length}/${pod.spec?.containers?.length || 0}`),
      make("td", { class: "number" }, String(statuses.reduce((sum, s) => sum + (s.restartCount || 0), 0))),
      make("td", {}, pod.spec?.nodeName || "–"),
      make("td", { class: "number soft" }, age(pod.metadata.creationTimestamp)));
  });
  fill(byId("pods"), rows, placeholder("pods", filter ? "No matching pods." : "No pods."));
}

function showEvents(events) {
  const recent = events.sort((a, b) => lastTime(b) - lastTime(a)).slice(0, EVENTS_SHOWN);
  const rows = recent.map((event) => {
    const object = event.involvedObject || {};
    const count = event.series?.count || event.count || 1;
    return make("tr", {}, make("td", { class: "soft" }, age(lastTimestamp(event))),
      make("td", {}, badge(event.reason || "", event.type === "Warning" ? "warn" : "")),
      make("td", { class: "name" }, make("div", {}, object.name || ""), make("div", { class: "soft" }, object.kind || "")),
      make("td", {}, (event.message || "") + (count > 1 ? ` (×${count})` : "")));
  });
  fill(byId("events"), rows, placeholder("events", "No events."));
}
