// The runs, the current run and the current view; the address is #view/run.

import { get } from "./api.js";

export const VIEWS = ["write", "learn", "flow", "steps"];

/** Fires "change" when the view, the run or the description of a run changes. */
export const state = Object.assign(new EventTarget(), { runs: null, view: "write", name: null });

export const run = () => state.runs?.find((found) => found.name === state.name) ?? state.runs?.[0] ?? null;

function readAddress() {
  const [view, ...rest] = location.hash.slice(1).split("/");
  if (!VIEWS.includes(view) && location.hash) return false;
  state.view = view || "write";
  if (rest.length) state.name = decodeURIComponent(rest.join("/"));
  return true;
}

export function go(view, name = state.name) {
  location.hash = name ? `${view}/${encodeURIComponent(name)}` : view;
}

export async function refresh() {
  const { data } = await get("/v1/elman/runs");
  const same = JSON.stringify(data) === JSON.stringify(state.runs);
  state.runs = data;
  if (!same) fire();
}

const fire = () => state.dispatchEvent(new Event("change"));

addEventListener("hashchange", () => { if (readAddress()) fire(); });
readAddress();
