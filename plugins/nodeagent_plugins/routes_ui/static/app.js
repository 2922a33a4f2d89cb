// Overview of the node: resource usage, conditions, pods with their stages, and log and events of the selected pod.

import { age, request, requestJson, badge, byId, bytes, fill, lines, make, notice, RequestError, signIn } from "./page.js";

const SAMPLES = 90;
const PERIOD_MS = 3000;
const LOG_LINES = 2000;
const KINDS = { done: "good", working: "warn", blocked: "bad", waiting: "" };
const SVG = "http://www.w3.org/2000/svg";

const plots = new Map();
let usage = new Map();
let listedPods = [];
let selected = null;
let logRequest = null;

signIn(async () => {
  await refresh();
  setInterval(() => refresh().then(() => notice(""), report), PERIOD_MS);
});

function report(error) {
  if (error instanceof RequestError && error.status === 401) location.reload();
  else notice(`No response from the agent: ${error.message}`);
}

async function refresh() {
  const [overview, stats, report] = await Promise.all(
    ["data/status", "/stats/summary", "data/volumes"].map((path) => requestJson(path)));
  usage = new Map(stats.pods.map((pod) => [pod.podRef.uid, pod]));
  showNode(overview);
  showPlots(overview);
  showPods(overview.pods);
  showVolumes(report.volumes);
  if (selected) await showPod();
}

function showNode(overview) {
  document.title = `Node ${overview.node}`;
  byId("node").textContent = overview.node;
  byId("ready").textContent = overview.ready ? "Ready" : "NotReady";
  byId("ready").className = `badge ${overview.ready ? "good" : "bad"}`;
  byId("version").textContent = `${overview.version} · ${overview.runtime} · up ${age(overview.startedAt)}`
    + (overview.apiServer ? ` · API server: ${overview.apiServer}` : "");
  const rows = overview.conditions.map((condition) => {
    const healthy = (condition.type === "Ready") === (condition.status === "True");
    return make("tr", {}, make("td", {}, condition.type),
      make("td", {}, badge(condition.status, healthy ? "good" : "bad")),
      make("td", { class: "soft" }, condition.message || ""));
  });
  for (const loop of overview.loops.filter((each) => each.problem)) {
    rows.push(make("tr", {}, make("td", {}, `loop ${loop.name}`), make("td", {}, badge("failing", "bad")),
      make("td", { class: "soft" }, loop.problem)));
  }
  for (const pull of overview.pulls) {
    rows.push(make("tr", {}, make("td", {}, "image pull"),
      make("td", {}, badge(`${pull.waits ? "queued" : "pulling"} ${Math.round(pull.seconds)} s`, "warn")),
      make("td", { class: "soft" }, `${pull.image} for ${pull.pods.join(", ")}`)));
  }
  for (const line of overview.devices) {
    rows.push(make("tr", {}, make("td", {}, line.name),
      make("td", {}, badge(`${line.allocated} of ${line.capacity} allocated`, line.problem ? "warn" : "good")),
      make("td", { class: "soft" }, line.problem || `${line.healthy} healthy, ${line.plugin}`)));
  }
  fill(byId("conditions"), rows, "No conditions yet.");
}

function showPlots(overview) {
  const gauges = new Map(overview.gauges.map((gauge) => [gauge.name, gauge]));
  const { used: cores = 0, capacity: allCores = 1e9 } = gauges.get("cpu") || {};
  plot("CPU", cores, `${(cores / 1e9).toFixed(2)} cores`, allCores, `of ${allCores / 1e9}`);
  for (const [title, name] of [["Memory", "memory"], ["Disk", "nodefs"]]) {
    const { used = 0, capacity = 0 } = gauges.get(name) || {};
    plot(title, used, bytes(used), capacity, `of ${bytes(capacity)}`);
  }
  const ready = overview.pods.filter((pod) => pod.ready).length;
  plot("Pods", overview.pods.length, String(overview.pods.length), 1, `${ready} ready`);
}

function plot(name, value, text, maximum, detail = "") {
  if (!plots.has(name)) {
    const figure = make("span", { class: "figure" });
    const label = make("span", { class: "soft" });
    const image = document.createElementNS(SVG, "svg");
    image.setAttribute("viewBox", "0 0 100 40");
    image.setAttribute("preserveAspectRatio", "none");
    image.setAttribute("class", "plot");
    const area = document.createElementNS(SVG, "path");
    const curve = document.createElementNS(SVG, "path");
    area.setAttribute("class", "area");
    curve.setAttribute("class", "curve");
    image.append(area, curve);
    byId("plots").append(make("div", { class: "card" }, make("h2", {}, name), figure, " ", label, image));
    plots.set(name, { figure, label, area, curve, values: [] });
  }
  const { figure, label, area, curve, values } = plots.get(name);
  figure.textContent = text;
  label.textContent = detail;
  values.push(value);
  if (values.length > SAMPLES) values.shift();
  const high = Math.max(maximum, ...values) || 1;
  const points = values.length > 1 ? values : [value, value];
  const step = 100 / (points.length - 1);
  const path = points.map((each, i) => `${(i * step).toFixed(2)},${(39 - 37 * (each / high)).toFixed(2)}`).join(" L");
  curve.setAttribute("d", `M${path}`);
  area.setAttribute("d", `M0,40 L${path} L100,40 Z`);
}

function showPods(pods) {
  listedPods = pods;
  const rows = pods.map((pod) => {
    const used = usage.get(pod.uid);
    const stage = pod.ready ? badge("Ready", "good")
      : pod.stage ? badge(pod.reason || pod.stage, pod.blocked ? "bad" : "warn") : badge(pod.phase);
    const style = selected && selected.uid === pod.uid ? "choice chosen" : "choice";
    const open = () => select(pod);
    const name = make("td", {}, make("div", {}, pod.name), make("div", { class: "soft" }, pod.namespace));
    return make("tr", { class: style, tabindex: 0, onclick: open, onkeydown: (e) => e.key === "Enter" && open() }, name,
      make("td", {}, stage), make("td", { class: "number" }, `${pod.containersReady}/${pod.containers}`),
      make("td", { class: "number" }, String(pod.restarts)),
      make("td", { class: "number" }, used?.cpu ? `${Math.round((used.cpu.usageNanoCores || 0) / 1e6)}m` : "–"),
      make("td", { class: "number" }, used?.memory ? bytes(used.memory.workingSetBytes) : "–"));
  });
  fill(byId("pods"), rows, "No pods on this node.");
}

/** Show the volumes of claims, and those that are not mounted or failed. */
function showVolumes(volumes) {
  const shown = volumes.filter((volume) => volume.claim || volume.error || volume.state !== "Mounted");
  const rows = shown.flatMap((volume) => {
    const kind = volume.state === "Mounted" ? "good" : volume.error ? "bad" : "warn";
    const size = (amount) => make("td", { class: "number" }, amount == null ? "–" : bytes(amount));
    const row = make("tr", {}, make("td", {}, make("div", {}, volume.pod || volume.podUID || "–"),
      make("div", { class: "soft" }, volume.namespace || "")),
      make("td", {}, make("div", {}, volume.claim || "–"),
        make("div", { class: "soft" }, volume.volume || volume.name || "")),
      make("td", { class: "soft" }, volume.driver || ""), make("td", {}, badge(volume.state, kind)),
      size(volume.usedBytes), size(volume.availableBytes));
    if (!volume.error) return [row];
    const next = volume.retrySeconds == null ? "" : `, next attempt in ${Math.round(volume.retrySeconds)} s`;
    const call = volume.call ? `${volume.call}: ` : "";
    return [row, make("tr", {}, make("td", { class: "soft", colspan: 6 }, `${call}${volume.error}${next}`))];
  });
  fill(byId("volumes"), rows, "No volumes of claims.");
}

async function select(pod) {
  selected = pod;
  showPods(listedPods);
  for (const id of ["pod", "log-card", "event-card"]) byId(id).hidden = false;
  byId("no-pod").hidden = true;
  byId("pod-name").textContent = pod.name;
  const { items } = await requestJson("/pods");
  const spec = items.find((item) => item.metadata.uid === pod.uid)?.spec || {};
  const names = [...(spec.containers || []), ...(spec.initContainers || [])].map((container) => container.name);
  byId("container").replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  followLog();
  await showPod().catch(report);
}

async function showPod() {
  const pod = selected;
  let why;
  try {
    why = await requestJson(`data/pods/${encodeURIComponent(pod.namespace)}/${encodeURIComponent(pod.name)}`);
  } catch (error) {
    if (!(error instanceof RequestError) || error.status !== 404) throw error;
    byId("pod-phase").textContent = "Deleted";
    byId("pod-phase").className = "badge";
    return;
  }
  if (pod !== selected) return;
  byId("pod-phase").textContent = why.ready ? "Ready" : why.phase;
  byId("pod-phase").className = `badge ${why.ready ? "good" : why.blocked ? "bad" : ""}`;
  byId("stages").replaceChildren(...why.stages.map((stage) => {
    const label = badge(stage.stage, KINDS[stage.state]);
    label.title = [stage.state, stage.detail].filter(Boolean).join(" · ");
    return make("div", {}, label, make("div", { class: "soft when" }, stage.at ? `${age(stage.at)} ago` : ""));
  }));
  const next = why.nextTrySeconds == null ? ""
    : why.nextTrySeconds < 1 ? "now" : `in ${Math.round(why.nextTrySeconds)} s`;
  const facts = [["Cause", why.cause], ["Next retry", next], ["Remedy", why.remedy]].filter(([, text]) => text);
  byId("cause").hidden = !why.blocked || !facts.length;
  byId("cause").replaceChildren(...facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, ...prose(text))]));
  const rows = [...why.events].reverse().map((event) => make("tr", {}, make("td", { class: "soft" }, age(event.last)),
    make("td", {}, badge(event.reason, event.type === "Warning" ? "warn" : "")), make("td", {}, event.note),
    make("td", { class: "number" }, String(event.count))));
  fill(byId("events"), rows, "No events since the agent started.");
}

/** Return the parts of a text, with those in backticks as code elements. */
function prose(text) {
  return text.split("`").map((piece, i) => i % 2 ? make("code", {}, piece) : piece);
}

// --- log -------------------------------------------------------------------------------------------------------

byId("container").addEventListener("change", followLog);
byId("follow").addEventListener("click", () => {
  if (logRequest) {
    logRequest.abort();
    logRequest = null;
    byId("follow").className = "";
  } else followLog();
});

async function followLog() {
  logRequest?.abort();
  const current = logRequest = new AbortController();
  byId("follow").className = "on";
  const log = byId("log");
  log.textContent = "";
  const path = [selected.namespace, selected.name, byId("container").value].map(encodeURIComponent).join("/");
  try {
    const response = await request(`/containerLogs/${path}?follow=true&tailLines=200`, { signal: current.signal });
    for await (const line of lines(response)) {
      if (current !== logRequest) return;
      const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      log.append(`${line}\n`);
      while (log.childNodes.length > LOG_LINES) log.firstChild.remove();
      if (atEnd) log.scrollTop = log.scrollHeight;
    }
  } catch (error) {
    if (error.name !== "AbortError") log.append(`— ${error.message}\n`);
  }
  if (current === logRequest) {
    logRequest = null;
    byId("follow").className = "";
  }
}
