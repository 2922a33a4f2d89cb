// Shared by all pages: sign-in, requests and creation of elements. Text is never interpreted as markup.

const KEY = "token";

export class RequestError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Request `path` with the token that the user entered, or with the browser's own credentials. */
export async function request(path, options = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { Accept: "application/json", ...(options.headers || {}) };
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers, cache: "no-store", redirect: "error" });
  if (!response.ok) {
    let text = (await response.text()).trim();
    try { text = JSON.parse(text).message || text; } catch { /* plain text */ }
    throw new RequestError(response.status, text.slice(0, 400) || response.statusText);
  }
  return response;
}

export const requestJson = async (path, options) => (await request(path, options)).json();

/** Yield each line of a streamed response as it arrives. */
export async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}

export const byId = (id) => document.getElementById(id);

/** Create an element: attributes by name, then children; strings become text nodes. */
export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

export const badge = (text, kind = "") => make("span", { class: `badge ${kind}` }, text);

/** Fill a table's body, or display the text *empty*. */
export function fill(body, rows, empty) {
  const columns = body.parentElement.tHead.rows[0].cells.length;
  const nothing = () => make("tr", {}, make("td", { colspan: columns, class: "empty" }, empty));
  body.replaceChildren(...(rows.length ? rows : [nothing()]));
}

export function notice(text) {
  const shown = byId("notice");
  shown.hidden = !text;
  shown.textContent = text || "";
}

/** Run `start` with sufficient credentials; prompt for a token until then. */
export function signIn(start) {
  const form = byId("sign-in");
  const enter = async () => {
    try {
      await start();
      form.hidden = true;
      byId("content").hidden = false;
      byId("leave").hidden = !sessionStorage.getItem(KEY);
    } catch (error) {
      if (!(error instanceof RequestError) || ![401, 403].includes(error.status)) throw error;
      const tried = sessionStorage.getItem(KEY);
      sessionStorage.removeItem(KEY);
      form.hidden = false;
      byId("sign-in-error").hidden = !tried && error.status === 401;
      byId("sign-in-error").textContent = error.status === 401 ? "Unauthorized: this token is not valid here." : error.message;
      byId("token").focus();
    }
  };
  let last = Promise.resolve();
  /** Attempts run one at a time: one that fails late must not remove the token of the next. */
  const attempt = (token) => {
    last = last.then(() => {
      if (token) sessionStorage.setItem(KEY, token);
      return enter();
    }).catch((error) => notice(`No response: ${error.message}`));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const token = byId("token").value.trim();
    byId("token").value = "";
    attempt(token);
  });
  byId("leave").addEventListener("click", () => {
    sessionStorage.removeItem(KEY);
    location.reload();
  });
  attempt();
}

export function age(when) {
  const seconds = Math.max(0, (Date.now() - new Date(when).getTime()) / 1000);
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 120) return `${Math.round(seconds)}s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)}h`;
  return `${Math.round(seconds / 86400)}d`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let left = value || 0;
  while (left >= 1024 && unit < units.length - 1) { left /= 1024; unit += 1; }
  return `${left >= 100 || unit === 0 ? Math.round(left) : left.toFixed(1)} ${units[unit]}`;
}
