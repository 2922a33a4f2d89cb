// Overview of the node: resources, pods with their stages, one pod's log and events.

import { age, request, requestJson, badge, byId, bytes, fill, lines, make, notice, RequestError, signIn } from "./page.js";

const SAMPLES = 90;
const PERIOD_MS = 3000;
const LOG_LINES = 2000;
const KINDS = { done: "good", working: "warn", blocked: "bad", waiting: "" };
const SVG = "http://www.w3.org/2000/svg";

const plots = new Map();
let use = new Map();
let shownPods = [];
let chosen = null;
let following = null;

signIn(async () => {
  await look();
  setInterval(() => look().then(() => notice(""), reportError), PERIOD_MS);
});

function reportError(error) {
  if (error instanceof RequestError && error.status === 401) location.reload();
  else notice(`The agent does not respond: ${error.message}`);
}

async function look() {
  const [overview, stats] = await Promise.all([requestJson("data/status"), requestJson("/stats/summary")]);
  use = new Map(stats.pods.map((pod) => [pod.podRef.uid, pod]));
  showNode(overview);
  showPlots(overview);
  showPods(overview.pods);
  if (chosen) await showPod();
}

function showNode(overview) {
  document.title = `Node ${overview.node}`;
  byId("node").textContent = overview.node;
  byId("ready").textContent = overview.ready ? "Ready" : "Not ready";
  byId("ready").className = `badge ${overview.ready ? "good" : "bad"}`;
  byId("about").textContent = `${overview.version} · ${overview.runtime} · up ${age(overview.startedAt)}`
    + (overview.apiServer ? ` · API server: ${overview.apiServer}` : "");
  const rows = overview.conditions.map((condition) => {
    const good = (condition.type === "Ready") === (condition.status === "True");
    return make("tr", {}, make("td", {}, condition.type), make("td", {}, badge(condition.status, good ? "good" : "bad")),
      make("td", { class: "soft" }, condition.message || ""));
  });
  for (const loop of overview.loops.filter((each) => each.problem)) {
    rows.push(make("tr", {}, make("td", {}, `loop ${loop.name}`), make("td", {}, badge("failing", "bad")),
      make("td", { class: "soft" }, loop.problem)));
  }
  for (const pull of overview.pulls) {
    rows.push(make("tr", {}, make("td", {}, "image pull"),
      make("td", {}, badge(`${pull.waits ? "queued" : "in progress"} ${Math.round(pull.seconds)} s`, "warn")),
      make("td", { class: "soft" }, `${pull.image} for ${pull.pods.join(", ")}`)));
  }
  fill(byId("conditions"), rows, "Conditions have not been reported yet.");
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

function plot(name, value, text, top, more = "") {
  if (!plots.has(name)) {
    const figure = make("span", { class: "figure" });
    const side = make("span", { class: "soft" });
    const drawing = document.createElementNS(SVG, "svg");
    drawing.setAttribute("viewBox", "0 0 100 40");
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("class", "plot");
    const area = document.createElementNS(SVG, "path");
    const curve = document.createElementNS(SVG, "path");
    area.setAttribute("class", "area");
    curve.setAttribute("class", "curve");
    drawing.append(area, curve);
    byId("plots").append(make("div", { class: "card" }, make("h2", {}, name), figure, " ", side, drawing));
    plots.set(name, { figure, side, area, curve, values: [] });
  }
  const { figure, side, area, curve, values } = plots.get(name);
  figure.textContent = text;
  side.textContent = more;
  values.push(value);
  if (values.length > SAMPLES) values.shift();
  const high = Math.max(top, ...values) || 1;
  const points = values.length > 1 ? values : [value, value];
  const step = 100 / (points.length - 1);
  const path = points.map((each, i) => `${(i * step).toFixed(2)},${(39 - 37 * (each / high)).toFixed(2)}`).join(" L");
  curve.setAttribute("d", `M${path}`);
  area.setAttribute("d", `M0,40 L${path} L100,40 Z`);
}

function showPods(pods) {
  shownPods = pods;
  const rows = pods.map((pod) => {
    const used = use.get(pod.uid);
    const stage = pod.ready ? badge("Ready", "good")
      : pod.stage ? badge(pod.reason || pod.stage, pod.blocked ? "bad" : "warn") : badge(pod.phase.toLowerCase());
    const mark = chosen && chosen.uid === pod.uid ? "choice chosen" : "choice";
    const open = () => choose(pod);
    const name = make("td", {}, make("div", {}, pod.name), make("div", { class: "soft" }, pod.namespace));
    return make("tr", { class: mark, tabindex: 0, onclick: open, onkeydown: (e) => e.key === "Enter" && open() }, name,
      make("td", {}, stage), make("td", { class: "number" }, `${pod.containersReady}/${pod.containers}`),
      make("td", { class: "number" }, String(pod.restarts)),
      make("td", { class: "number" }, used?.cpu ? `${Math.round((used.cpu.usageNanoCores || 0) / 1e6)}m` : "–"),
      make("td", { class: "number" }, used?.memory ? bytes(used.memory.workingSetBytes) : "–"));
  });
  fill(byId("pods"), rows, "No pod is assigned to this node.");
}

async function choose(pod) {
  chosen = pod;
  showPods(shownPods);
  for (const id of ["pod", "log-card", "event-card"]) byId(id).hidden = false;
  byId("none").hidden = true;
  byId("pod-name").textContent = pod.name;
  const { items } = await requestJson("/pods");
  const found = items.find((item) => item.metadata.uid === pod.uid);
  const spec = found?.spec || {};
  const names = [...(spec.containers || []), ...(spec.initContainers || [])].map((container) => container.name);
  byId("container").replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  follow();
  await showPod().catch(reportError);
}

async function showPod() {
  const pod = chosen;
  let why;
  try {
    why = await requestJson(`data/pods/${encodeURIComponent(pod.namespace)}/${encodeURIComponent(pod.name)}`);
  } catch (error) {
    if (!(error instanceof RequestError) || error.status !== 404) throw error;
    byId("pod-phase").textContent = "deleted";
    byId("pod-phase").className = "badge";
    return;
  }
  if (pod !== chosen) return;
  byId("pod-phase").textContent = why.ready ? "Ready" : why.phase;
  byId("pod-phase").className = `badge ${why.ready ? "good" : why.blocked ? "bad" : ""}`;
  byId("stages").replaceChildren(...why.stages.map((stage) => {
    const shown = badge(stage.stage, KINDS[stage.state]);
    shown.title = [stage.state, stage.detail].filter(Boolean).join(" · ");
    return make("div", {}, shown, make("div", { class: "soft when" }, stage.at ? `${age(stage.at)} ago` : ""));
  }));
  const next = why.nextTrySeconds == null ? ""
    : why.nextTrySeconds < 1 ? "now" : `in ${Math.round(why.nextTrySeconds)} s`;
  const entries = [["Cause", why.cause], ["Next retry", next], ["Remedy", why.remedy]].filter(([, text]) => text);
  byId("cause").hidden = !why.blocked || !entries.length;
  byId("cause").replaceChildren(...entries.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, ...prose(text))]));
  const rows = [...why.events].reverse().map((event) => make("tr", {}, make("td", { class: "soft" }, age(event.last)),
    make("td", {}, badge(event.reason, event.type === "Warning" ? "warn" : "")), make("td", {}, event.note),
    make("td", { class: "number" }, String(event.count))));
  fill(byId("events"), rows, "No events since the agent started.");
}

/** Return the pieces of a text, what stands between backticks as code. */
function prose(text) {
  return text.split("`").map((piece, i) => i % 2 ? make("code", {}, piece) : piece);
}

// --- the log ---------------------------------------------------------------------------------------------------

byId("container").addEventListener("change", follow);
byId("follow").addEventListener("click", () => {
  if (following) {
    following.abort();
    following = null;
    byId("follow").className = "";
  } else follow();
});

async function follow() {
  following?.abort();
  const mine = following = new AbortController();
  byId("follow").className = "on";
  const shown = byId("log");
  shown.textContent = "";
  const parts = [chosen.namespace, chosen.name, byId("container").value].map(encodeURIComponent);
  try {
    const answer = await request(`/containerLogs/${parts.join("/")}?follow=true&tailLines=200`, { signal: mine.signal });
    for await (const line of lines(answer)) {
      if (mine !== following) return;
      const below = shown.scrollHeight - shown.scrollTop - shown.clientHeight < 40;
      shown.append(`${line}\n`);
      while (shown.childNodes.length > LOG_LINES) shown.firstChild.remove();
      if (below) shown.scrollTop = shown.scrollHeight;
    }
  } catch (error) {
    if (error.name !== "AbortError") shown.append(`— ${error.message}\n`);
  }
  if (mine === following) {
    following = null;
    byId("follow").className = "";
  }
}
