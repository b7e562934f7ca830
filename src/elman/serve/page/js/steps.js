// Steps: every equation of a word, forward then backward, one at a time.

import { post } from "./api.js";
import { at, reducedMotion, make, number, debounced, visible } from "./dom.js";
import { state } from "./state.js";
import { BACK, Unrolled } from "./unrolled.js";
import { formula, table } from "./values.js";

const SMALL = { "@rnn": "RNN", "@gru": "GRU", "@lstm": "LSTM" }, PACE = 900; // milliseconds per step while it plays
let data = null, drawing = null, now = 0, started = false, playing = 0, control = null;

const setStatus = (text, wrong = false) => {
  at("steps-status").textContent = text;
  at("steps-status").classList.toggle("wrong", wrong);
};

/** The input and the target: the word without its last token, and without its first. */
async function inputAndTarget(word, model, signal) {
  const kind = state.runs?.find((run) => run.name === model)?.config.tokens ?? "char";
  if (kind !== "word" && kind !== "bpe") {
    const letters = [...word];
    return [letters.slice(0, -1).join(""), letters.slice(1).join("")];
  }
  const { tokens } = await post("/v1/elman/look/read", { model, text: word, alternatives: 1 }, signal);
  return [tokens.slice(0, -1).join(""), tokens.slice(1).join("")];
}

async function load() {
  control?.abort();
  const { signal } = (control = new AbortController());
  const word = at("word").value, model = at("step-network").value;
  if ([...word].length < 2) return setStatus("Type two letters or more: the first is read, the second is its target.");
  try {
    const [input, target] = await inputAndTarget(word, model, signal);
    if (!input) return setStatus("Type two tokens or more: the first is read, the second is its target.");
    data = await post("/v1/elman/steps", { input, target, ...(model in SMALL ? { cell: model.slice(1) } : { model }), shown: model in SMALL ? 12 : 8 }, signal);
    setStatus(`The network reads “${input}” and should predict “${target}”: ${data.steps.length} equations.`);
    drawing = new Unrolled(data, ([name, t, layer]) => go(data.steps.findIndex((s) => s.name === name && s.t === t && s.layer === layer)));
    at("unrolled").replaceChildren(drawing.svg);
    at("steps-found").hidden = false;
    at("step-slider").max = data.steps.length - 1;
    go(0);
  } catch (error) {
    if (error.name !== "AbortError") setStatus(error.message.replace(/^input: /, ""), true);
  }
}

/** The values of a symbol that are known at this step. */
function numbersOf(symbol) {
  const bare = symbol.replace(/\.T$/, "");
  const seen = data.steps.slice(0, now + 1), found = seen.flatMap((s) => [...s.operands, s.result]).filter((v) => v.name === bare).at(-1);
  if (!found) return null;
  const rows = found.axes.startsWith("B") ? found.values : found.axes.length > 1 ? found.values : [[found.values].flat()];
  return rows.slice(0, 8).map((row) => row.slice(0, 8).map((v) => number(v)).join("  ") + (row.length > 8 ? " …" : "")).join("\n");
}

function drawEquation(step) {
  const back = BACK.includes(step.phase), [reads, target] = data.tokens[step.t] ?? [];
  const where = step.t === null ? "over all steps" : `t = ${step.t}, reads “${visible(reads)}”, should predict “${visible(target)}”`;
  const cut = ["H", "Y"].filter((axis) => data.axes[axis].indices.length < data.axes[axis].size)
    .map((axis) => `${data.axes[axis].indices.length} of ${data.axes[axis].size} ${axis === "H" ? "units" : "tokens"}`);
  at("equation").classList.toggle("back", back);
  at("equation").replaceChildren(
    make("p", { class: "kicker" }, make("span", { class: "badge" }, step.phase), where, data.network.layers > 1 ? ` · layer ${step.layer}` : ""),
    formula(step.here, numbersOf),
    make("p", { class: "says" }, step.says, step.number ? ` Equation ${step.number} of docs/maths.md.` : ""),
    make("div", { class: "values" }, ...step.operands.map((value) => table(value, data.axes)), make("div", { class: "result" }, table(step.result, data.axes))),
    make("p", { class: "hint" }, cut.length ? `Shown: ${cut.join(", ")}.` : ""),
    make("h3", {}, "The code that computes it"),
    make("div", { class: "code mono" }, step.lines.map((line) => make("p", {}, make("span", {}, `${line.file}:${line.line}`), make("code", {}, line.code)))));
}

function go(i) {
  if (!data) return;
  now = Math.max(0, Math.min(data.steps.length - 1, i));
  const node = drawing.show(now), step = data.steps[now];
  drawEquation(step);
  at("step-slider").value = now;
  at("step-slider").setAttribute("aria-valuetext", step.here);
  at("step-count").textContent = `${now + 1} / ${data.steps.length}`;
  at("back").disabled = at("first").disabled = now === 0;
  at("next").disabled = now === data.steps.length - 1;
  if (at("next").disabled) play(false);
  const box = at("unrolled"), spot = node?.getBBox();
  if (spot && box.scrollWidth > box.clientWidth) box.scrollTo({ left: spot.x + spot.width / 2 - box.clientWidth / 2, behavior: reducedMotion.matches ? "auto" : "smooth" });
}

function play(on) {
  clearInterval(playing);
  playing = on ? setInterval(() => go(now + 1), PACE) : 0;
  at("play").textContent = on ? "Pause" : "Play";
  at("play").setAttribute("aria-pressed", on);
}

function key(event) {
  if (at("steps").hidden || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: data?.steps.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  go(to);
}

/** Hovering a symbol in the formula marks its table. */
function mark(event) {
  const symbol = event.target.closest?.(".symbol")?.dataset.symbol.replace(/\.T$/, "");
  for (const figure of at("equation").querySelectorAll(".value")) figure.classList.toggle("marked", Boolean(symbol) && figure.dataset.name.includes(symbol));
}

function start() {
  started = true;
  at("word").addEventListener("input", debounced(load, 250));
  at("step-network").addEventListener("change", load);
  at("first").addEventListener("click", () => go(0));
  at("back").addEventListener("click", () => go(now - 1));
  at("next").addEventListener("click", () => go(now + 1));
  at("play").addEventListener("click", () => { if (now === data.steps.length - 1) go(0); play(!playing); });
  at("step-slider").addEventListener("input", () => go(Number(at("step-slider").value)));
  at("equation").addEventListener("pointerover", mark);
  addEventListener("keydown", key);
}

function fillNetworks() {
  const before = at("step-network").value;
  const ready = (state.runs ?? []).filter((run) => run.task === "lm" && run.ready);
  at("step-network").replaceChildren(...Object.entries(SMALL).map(([value, name]) => make("option", { value, selected: value === before }, `${name}, three units, random weights`)),
    ...ready.map(({ name }) => make("option", { value: name, selected: name === before }, name)));
}

export const steps = {
  show() {
    if (!started) start();
    fillNetworks();
    if (!data) load();
  },
  hide: () => play(false),
};
