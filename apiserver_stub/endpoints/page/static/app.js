// The cluster at a glance: nodes, pods and events, each listed once and then followed by a watch.

import { age, request, requestJson, badge, byId, fill, lines, make, notice, RequestError, signIn } from "./page.js";

const KINDS = ["nodes", "pods", "events"];
const EVENTS_SHOWN = 100;
const PERIOD_MS = 10000;
const AGAIN_MS = 2000;

const known = new Map(KINDS.map((kind) => [kind, new Map()]));
const refused = new Map();
const away = new Map();
let drawing = false;

signIn(async () => {
  const answers = await Promise.allSettled(KINDS.map(list));
  const errors = answers.filter((answer) => answer.status === "rejected").map((answer) => answer.reason);
  const fatal = errors.find((error) => !(error instanceof RequestError) || error.status !== 403)
    || (errors.length === KINDS.length && errors[0]);
  if (fatal) throw fatal;
  answers.forEach((answer, i) => {
    if (answer.status === "fulfilled") follow(KINDS[i], answer.value);
    else refused.set(KINDS[i], answer.reason.message);
  });
  const { gitVersion } = await requestJson("/version").catch(() => ({}));
  byId("about").textContent = gitVersion || "";
  byId("filter").addEventListener("input", draw);
  setInterval(draw, PERIOD_MS);
  draw();
});

/** List a kind, and return the version from which a watch goes on. */
async function list(kind) {
  const found = await requestJson(`/api/v1/${kind}`);
  known.set(kind, new Map(found.items.map((item) => [item.metadata.uid, item])));
  return found.metadata.resourceVersion;
}

async function follow(kind, version) {
  for (;;) {
    try {
      const query = `watch=1&allowWatchBookmarks=true&resourceVersion=${encodeURIComponent(version)}`;
      const answer = await request(`/api/v1/${kind}?${query}`);
      away.delete(kind);
      draw();
      for await (const line of lines(answer)) {
        const { type, object } = JSON.parse(line);
        if (type === "ERROR") throw new RequestError(object.code, object.message);
        version = object.metadata.resourceVersion;
        if (type === "BOOKMARK") continue;
        if (type === "DELETED") known.get(kind).delete(object.metadata.uid);
        else known.get(kind).set(object.metadata.uid, object);
        draw();
      }
    } catch (error) {
      if (error instanceof RequestError && error.status === 401) location.reload();
      away.set(kind, error.message);
      draw();
      await new Promise((done) => setTimeout(done, AGAIN_MS));
      version = await list(kind).catch(() => version);
    }
  }
}

/** Show what is known, once for all changes that came together. */
function draw() {
  if (drawing) return;
  drawing = true;
  setTimeout(() => {
    drawing = false;
    const [nodes, pods, events] = KINDS.map((kind) => [...known.get(kind).values()]);
    byId("live").textContent = away.size ? "Connecting" : "Live";
    byId("live").className = `badge ${away.size ? "warn" : "good"}`;
    notice(away.size ? `The server does not answer: ${[...away.values()][0]}` : "");
    showCounts(nodes, pods, events);
    showNodes(nodes, pods);
    showPods(pods);
    showEvents(events);
  }, 100);
}

const isReady = (node) => (node.status?.conditions || []).some((c) => c.type === "Ready" && c.status === "True");
const lastOf = (event) => event.series?.lastObservedTime || event.lastTimestamp || event.eventTime
  || event.metadata.creationTimestamp;
const when = (event) => new Date(lastOf(event)).getTime();
const none = (kind, text) => (refused.has(kind) ? `Not shown: ${refused.get(kind)}` : text);

function showCounts(nodes, pods, events) {
  const phase = (name) => pods.filter((pod) => pod.status?.phase === name).length;
  const recent = events.filter((event) => event.type === "Warning" && Date.now() - when(event) < 3600e3).length;
  const counts = [
    ["Nodes", nodes.length, `${nodes.filter(isReady).length} ready`],
    ["Pods", pods.length, `${phase("Running")} running`],
    ["Waiting", phase("Pending"), "pods are pending"],
    ["Warnings", recent, "in the last hour"],
  ];
  byId("counts").replaceChildren(...counts.map(([name, value, more]) => make("div", { class: "card" },
    make("h2", {}, name), make("span", { class: "figure" }, String(value)), " ", make("span", { class: "soft" }, more))));
}

function showNodes(nodes, pods) {
  const rows = nodes.sort(byName).map((node) => {
    const name = node.metadata.name;
    const ready = isReady(node);
    const addresses = (node.status?.addresses || []).filter((a) => a.type === "InternalIP").map((a) => a.address);
    const status = make("td", {}, badge(ready ? "Ready" : "Not ready", ready ? "good" : "bad"));
    if (node.spec?.unschedulable) status.append(" ", badge("cordoned", "warn"));
    return make("tr", {}, make("td", {}, name), status,
      make("td", { class: "number" }, String(pods.filter((pod) => pod.spec?.nodeName === name).length)),
      make("td", {}, node.status?.nodeInfo?.kubeletVersion || ""), make("td", { class: "name" }, addresses.join(", ")),
      make("td", { class: "number soft" }, age(node.metadata.creationTimestamp)));
  });
  fill(byId("nodes"), rows, none("nodes", "No node has joined yet."));
}

/** What a pod waits for or does, in one word. */
function stateOf(pod) {
  if (pod.metadata.deletionTimestamp) return ["Terminating", "warn"];
  const statuses = [...(pod.status?.initContainerStatuses || []), ...(pod.status?.containerStatuses || [])];
  const waiting = statuses.map((status) => status.state?.waiting?.reason).find(Boolean);
  if (waiting) return [waiting, /Err|BackOff|Invalid|Failed/.test(waiting) ? "bad" : "warn"];
  const phase = pod.status?.phase || "Pending";
  if (phase === "Failed") return [pod.status.reason || phase, "bad"];
  const ready = (pod.status?.conditions || []).some((c) => c.type === "Ready" && c.status === "True");
  const running = ready ? "good" : "warn"; // it runs and does not serve
  return [pod.status?.reason || phase, phase === "Running" ? running : phase === "Pending" ? "warn" : ""];
}

const byName = (a, b) => (a.metadata.namespace || "").localeCompare(b.metadata.namespace || "")
  || a.metadata.name.localeCompare(b.metadata.name);

function showPods(pods) {
  const wanted = byId("filter").value.trim().toLowerCase();
  const text = (pod) => `${pod.metadata.namespace}/${pod.metadata.name} ${pod.spec?.nodeName} ${stateOf(pod)[0]}`;
  const found = pods.filter((pod) => !wanted || text(pod).toLowerCase().includes(wanted)).sort(byName);
  const rows = found.slice(0, 500).map((pod) => {
    const statuses = pod.status?.containerStatuses || [];
    return make("tr", {},
      make("td", {}, make("div", {}, pod.metadata.name), make("div", { class: "soft" }, pod.metadata.namespace)),
      make("td", {}, badge(...stateOf(pod))),
      make("td", { class: "number" }, `${statuses.filter((s) => s.ready).length}/${pod.spec?.containers?.length || 0}`),
      make("td", { class: "number" }, String(statuses.reduce((sum, s) => sum + (s.restartCount || 0), 0))),
      make("td", {}, pod.spec?.nodeName || "–"),
      make("td", { class: "number soft" }, age(pod.metadata.creationTimestamp)));
  });
  fill(byId("pods"), rows, none("pods", wanted ? "No pod matches." : "There are no pods."));
}

function showEvents(events) {
  const newest = events.sort((a, b) => when(b) - when(a)).slice(0, EVENTS_SHOWN);
  const rows = newest.map((event) => {
    const about = event.involvedObject || {};
    const count = event.series?.count || event.count || 1;
    return make("tr", {}, make("td", { class: "soft" }, age(lastOf(event))),
      make("td", {}, badge(event.reason || "", event.type === "Warning" ? "warn" : "")),
      make("td", { class: "name" }, make("div", {}, about.name || ""), make("div", { class: "soft" }, about.kind || "")),
      make("td", {}, (event.message || "") + (count > 1 ? ` (×${count})` : "")));
  });
  fill(byId("events"), rows, none("events", "Nothing happened lately."));
}
