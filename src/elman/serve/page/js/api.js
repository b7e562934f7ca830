// Requests to the service: JSON and server-sent events by fetch, with the key if one is required.

const STORED_KEY = "elman-key"; // name in sessionStorage

export class ApiError extends Error {
  constructor(status, { message, code, param }) {
    super(message);
    Object.assign(this, { status, code, param });
  }
}

export class GoneError extends Error {
  constructor() {
    super("The service does not answer.");
  }
}

/** Fires "gone" when the service stops answering, and "back" when it answers again; `ask` is the function that asks the user for the key. */
export const service = Object.assign(new EventTarget(), { gone: false, ask: null });

let asking = null; // the promise of the key dialog: several requests may be refused at the same time

async function raw(path, options) {
  const key = sessionStorage.getItem(STORED_KEY);
  const headers = { ...(key ? { Authorization: `Bearer ${key}` } : {}), ...(options.body ? { "Content-Type": "application/json" } : {}) };
  try {
    return [await fetch(path, { ...options, headers, cache: "no-store" }), key];
  } catch (error) {
    if (error.name === "AbortError") throw error;
    lost();
    throw new GoneError();
  }
}

async function request(path, options = {}) {
  for (;;) {
    const [answer, key] = await raw(path, options);
    if (answer.ok) return answer;
    const reply = await answer.json().catch(() => ({}));
    const error = new ApiError(answer.status, reply.error ?? { message: `The service answered with status ${answer.status}.` });
    if (answer.status !== 401 || !service.ask) throw error;
    if (key !== sessionStorage.getItem(STORED_KEY)) continue; // another request has a new key by now
    asking ??= service.ask(key !== null).finally(() => { asking = null; });
    const given = await asking;
    if (given === null) throw error;
    sessionStorage.setItem(STORED_KEY, given);
  }
}

const body = (value) => ({ method: "POST", body: JSON.stringify(value) });

export const get = async (path) => (await request(path)).json();
export const post = async (path, value, signal) => (await request(path, { ...body(value), signal })).json();
export const remove = async (path) => (await request(path, { method: "DELETE" })).json();

/** The events of a stream, as {event, data}. */
export async function* stream(path, { value, signal } = {}) {
  const answer = await request(path, { ...(value ? body(value) : {}), signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      lost();
      throw new GoneError();
    }
    if (part.done) return;
    waiting += part.value.replaceAll("\r\n", "\n");
    const blocks = waiting.split("\n\n");
    waiting = blocks.pop();
    for (const block of blocks) {
      const found = { event: "message", data: "" };
      for (const line of block.split("\n")) {
        const [, name, text] = /^(event|data): ?(.*)$/s.exec(line) ?? [];
        if (name === "event") found.event = text;
        if (name === "data") found.data += text;
      }
      if (found.data) yield found;
    }
  }
}

function lost() {
  if (service.gone) return;
  service.gone = true;
  service.dispatchEvent(new Event("gone"));
  const poll = async () => {
    const back = await fetch("/health", { cache: "no-store" }).then((answer) => answer.ok, () => false);
    if (!back) return setTimeout(poll, 2000);
    service.gone = false;
    service.dispatchEvent(new Event("back"));
  };
  setTimeout(poll, 1000);
}
