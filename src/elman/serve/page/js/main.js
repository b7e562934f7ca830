// The page: which view is shown, and messages when there is nothing to show.

import { ApiError, GoneError, service } from "./api.js";
import { at, make, tips } from "./dom.js";
import { askForKey, startKey } from "./key.js";
import { flow } from "./flow.js";
import { learn } from "./learn.js";
import { predict } from "./predict.js";
import { go, refresh, run, state } from "./state.js";
import { steps } from "./steps.js";
import { startTheme } from "./theme.js";
import { write } from "./write.js";

const SECTIONS = { write, predict, learn, flow, steps };
const REFRESH = 3000; // milliseconds between two requests for a run that is in training
let shown = null;

const command = (words) => make("code", { class: "command" }, words);

function emptyMessage(found) {
  if (state.runs === null) return null;
  const { view } = state;
  if (view === "steps" || view === "learn") return null;
  if (found === null) {
    return ["No run is served yet", "Train a network on a text, then serve it:", command("elman train novel.txt --seconds 60"),
      command("elman serve runs/novel"), make("p", {}, "Or ", make("a", { href: "#learn" }, "train a small model here"), ", or ",
        make("a", { href: "#steps" }, "step through the equations"), ", which needs no run.")];
  }
  if (view === "flow" && found.task !== "lm") {
    return ["Flow analyzes language models", `${found.name} is a run for ${found.task}. Write shows its predictions.`,
      make("a", { href: `#write/${encodeURIComponent(found.name)}` }, "Open it")];
  }
  if (!found.ready) {
    return ["This run has no model yet", found.training ? `${found.name} is in training. This view opens with its first checkpoint.`
      : `${found.name} ended before its first checkpoint. Continue it:`,
      found.training ? make("a", { href: "#learn" }, "Watch it train") : command(`elman train --resume runs/${found.name}`)];
  }
  return null;
}

function sectionOf(found) {
  if (state.view === "write" && found && found.task !== "lm") return "predict";
  return state.view;
}

function show() {
  const found = run(), message = emptyMessage(found), name = message || state.runs === null ? null : sectionOf(found);
  for (const tab of document.querySelectorAll(".tabs a")) {
    tab.href = `#${tab.dataset.view}${found ? `/${encodeURIComponent(found.name)}` : ""}`;
    if (tab.dataset.view === state.view) tab.setAttribute("aria-current", "page"); else tab.removeAttribute("aria-current");
  }
  if (shown !== name) SECTIONS[shown]?.hide?.();
  for (const id of Object.keys(SECTIONS)) at(id).hidden = id !== name;
  at("empty").hidden = !message;
  if (message) {
    const [title, ...rest] = message;
    at("empty").replaceChildren(make("h1", {}, title), ...rest.map((part) => (typeof part === "string" ? make("p", {}, part) : part)));
  }
  document.title = found ? `${found.name} · Elman` : "Elman";
  shown = name;
  if (name) SECTIONS[name].show(found);
}

function fillRuns() {
  const picker = at("run"), found = run();
  picker.replaceChildren(...(state.runs ?? []).map(({ name, task, training }) =>
    make("option", { value: name, selected: name === found?.name }, name + (task === "lm" ? "" : ` · ${task}`) + (training ? " · training" : ""))));
  picker.hidden = !state.runs?.length;
}

function banner(...words) {
  at("banner").hidden = !words.length;
  at("banner").replaceChildren(...words);
}

async function load() {
  try {
    await refresh();
    if (!service.gone) banner();
  } catch (error) {
    if (error instanceof GoneError) return;
    const again = make("button", { type: "button", onclick: load }, error instanceof ApiError && error.status === 401 ? "Enter the key" : "Try again");
    banner(make("span", {}, error.message), again);
  }
}

service.ask = askForKey;
service.addEventListener("gone", () => {
  const name = run()?.name;
  banner(make("span", {}, make("b", {}, "The service does not answer. "), "Start it again and this page continues: "), command(`elman serve ${name ? `runs/${name}` : "RUN"}`));
});
service.addEventListener("back", async () => {
  banner();
  await load();
  show();
});
state.addEventListener("change", () => {
  fillRuns();
  show();
});
at("run").addEventListener("change", () => go(state.view, at("run").value));
setInterval(() => {
  const found = run();
  if (document.visibilityState === "visible" && !service.gone && found && (found.training || !found.ready)) load();
}, REFRESH);

startTheme();
startKey();
tips(document.body);
show();
await load();
