// What every page here shares: who looks at it, requests, and making elements. No text becomes markup.

const KEY = "token";

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Ask for `path` with the token that was typed in, or with what the browser itself shows. */
export async function ask(path, options = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { Accept: "application/json", ...(options.headers || {}) };
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...options, headers, cache: "no-store", redirect: "error" });
  if (!answer.ok) {
    let text = (await answer.text()).trim();
    try { text = JSON.parse(text).message || text; } catch { /* plain text */ }
    throw new Refused(answer.status, text.slice(0, 400) || answer.statusText);
  }
  return answer;
}

export const askJson = async (path, options) => (await ask(path, options)).json();

/** Give each line of a stream as it comes. */
export async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
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

/** Make an element: names of attributes, then children; text is text. */
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

/** Fill a table's body, or say that there is nothing. */
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

/** Run `start` once the credentials are good enough; ask for a token until they are. */
export function signIn(start) {
  const form = byId("sign-in");
  const enter = async () => {
    try {
      await start();
      form.hidden = true;
      byId("content").hidden = false;
      byId("leave").hidden = !sessionStorage.getItem(KEY);
    } catch (error) {
      if (!(error instanceof Refused) || ![401, 403].includes(error.status)) throw error;
      const tried = sessionStorage.getItem(KEY);
      sessionStorage.removeItem(KEY);
      form.hidden = false;
      byId("refusal").hidden = !tried && error.status === 401;
      byId("refusal").textContent = error.status === 401 ? "This token is not known here." : error.message;
      byId("token").focus();
    }
  };
  let last = Promise.resolve();
  /** One after the other: an attempt that fails late must not take away the token of the next. */
  const attempt = (token) => {
    last = last.then(() => {
      if (token) sessionStorage.setItem(KEY, token);
      return enter();
    }).catch((error) => notice(`No answer: ${error.message}`));
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
