// Flow: how gradients flow back through a text, and why they vanish or explode.

import { post } from "./api.js";
import { at, make, number, percent, debounced, visible } from "./dom.js";
import { drawEigen, drawFactors, drawGates, drawLag, drawLyapunov, drawMap, drawSingular, drawStates } from "./flow_figures.js";

const SLOPES = { tanh: "diag(1 − h²)", sigmoid: "diag(h(1 − h))", relu: "diag(h > 0)", identity: "diag(1)" };
const STEPS = 96; // time steps of the text that are analyzed
const GATES = {
  i: "input gate: how much of the candidate enters c", f: "forget gate: how much of c is kept", g: "candidate: what could enter c", o: "output gate: how much of tanh(c) enters h",
  r: "reset gate: how much of h enters the candidate", z: "update gate: how much of h is kept", n: "candidate: what could replace h",
};
let run = null, control = null, found = null, spectra = null, layer = 0, chosen = -1, gate = null;

const setStatus = (text, wrong = false) => {
  at("flow-status").textContent = text;
  at("flow-status").classList.toggle("wrong", wrong);
};

/** A text to start with: a sample of the model, which has no unknown tokens. */
async function sampleText(signal) {
  const length = run.config.tokens === "word" ? 30 : STEPS;
  const sample = await post("/v1/completions", { model: run.name, max_tokens: length, temperature: 0.6, seed: 2 }, signal);
  return sample.choices[0].text.trim();
}

async function analyze({ sample = false } = {}) {
  control?.abort();
  const mine = (control = new AbortController()), { signal } = mine, began = performance.now();
  setStatus("Computing …");
  try {
    if (sample) at("flow-text").value = await sampleText(signal);
    if ([...at("flow-text").value].length < 2) return setStatus("Type at least two characters.");
    const value = { model: run.name, text: at("flow-text").value, steps: STEPS };
    [found, spectra] = await Promise.all(["flow", "spectra"].map((what) => post(`/v1/elman/look/${what}`, value, signal)));
    if (mine !== control) return;
    at("flow-found").hidden = false;
    layer = Math.min(layer, found.layers.length - 1);
    const read = found.tokens.length - 1, more = found.tokens.length > STEPS ? `, the first ${STEPS} of the text` : "";
    setStatus(`${read} time steps${more}, in ${number((performance.now() - began) / 1000, 2)} s.`);
    chosen = found.tokens.length - 1;
    drawAll();
  } catch (error) {
    if (error.name !== "AbortError") setStatus(error.message.replace(/^text: /, ""), true);
  }
}

function drawAll() {
  drawLayers();
  drawVerdict();
  drawText();
  const here = found.layers[layer], there = spectra.layers[layer];
  const state = run.config.cell === "lstm" ? "s" : "h"; // s: h and c together
  for (const node of document.querySelectorAll("#flow .of-state")) node.textContent = state;
  drawMap(here, found.tokens, state);
  drawLag(here);
  const gated = Object.keys(there.gates).length > 0;
  drawFactors(here, gated ? "slopes of the gates" : SLOPES[run.config.activation] ?? "diag(f′)");
  drawEigen(there);
  drawSingular(there);
  at("saturated").textContent = Object.entries(there.saturation).map(([name, { share }]) => `${name}: ${percent(share)}`).join(", ") + " of the values lie where the activation is flat";
  drawGateChoice(there.gates);
  drawStates(there);
  drawLyapunov(there);
}

function drawLayers() {
  const place = at("flow-layers"), many = found.layers.length > 1;
  place.hidden = !many;
  if (!many || place.childElementCount === found.layers.length) return;
  place.replaceChildren(...found.layers.map((_, i) => make("label", {},
    make("input", { type: "radio", name: "flow-layer", checked: i === layer, onchange: () => { layer = i; drawAll(); } }), make("span", {}, `Layer ${i}`))));
}

function drawGateChoice(gates) {
  const names = Object.keys(gates);
  at("gates-card").hidden = !names.length;
  if (!names.length) return;
  if (!names.includes(gate)) gate = names.includes("f") ? "f" : names.includes("z") ? "z" : names[0];
  const show = () => { at("gates-description").textContent = GATES[gate] ?? ""; drawGates(gates[gate], gate, spectra.tokens); };
  at("gate-choice").replaceChildren(...names.map((name) => make("label", {},
    make("input", { type: "radio", name: "gate", value: name, checked: name === gate, onchange: () => { gate = name; show(); } }), make("span", {}, name))));
  show();
}

function drawVerdict() {
  const verdict = found.verdicts[layer];
  const none = verdict.kind === "silent" || (verdict.kind === "explodes" && verdict.lag === null); // no gradient, or the states overflow
  const far = none ? "–" : verdict.horizon === null ? `${found.losses.length}+` : String(verdict.horizon);
  at("verdict").dataset.kind = verdict.kind;
  at("verdict").replaceChildren(
    make("div", { class: "far" }, make("b", {}, far), make("span", {}, "steps back until less than 1 % of the gradient is left")),
    make("div", {}, make("span", { class: "badge" }, verdict.kind), make("p", {}, verdict.words)));
}

/** The text, shaded by the gradient of the loss of the chosen token. */
function drawText() {
  const spans = found.tokens.map((token, i) => {
    const span = make("span", { "data-i": i, class: i === chosen ? "now" : "" }, token);
    if (/^\n+$/.test(token)) span.classList.add("line");
    return span;
  });
  at("reach-text").replaceChildren(...spans);
  reach(chosen);
}

function reach(i) {
  if (i < 1 || i >= found.tokens.length) return;
  chosen = i;
  const row = found.layers[layer].map[i - 1], own = row[i]; // the loss of predicting token i
  const most = Math.max(...row.filter((v) => v !== null), 1e-300);
  let lag = 0;
  while (lag <= i && row[i - lag] >= 0.01 * own) lag += 1;
  for (const span of at("reach-text").children) {
    const j = Number(span.dataset.i);
    span.style.setProperty("--s", j < i ? Math.sqrt((row[j + 1] ?? 0) / most).toFixed(3) : 0);
    span.classList.toggle("now", j === i);
  }
  const far = lag > i ? "back to the start" : `${lag - 1} step${lag === 2 ? "" : "s"} back`;
  const reached = row.some((norm) => norm > 0) ? `At least 1 % of its gradient reaches ${far}.` : "It has no gradient.";
  at("reach-status").textContent = `“${visible(found.tokens[i])}”: loss ${number(found.losses[i - 1], 2)} nats. ${reached}`;
}

const place = at("reach-text");
for (const kind of ["pointerover", "click"]) {
  place.addEventListener(kind, (event) => { if (event.target.dataset.i) reach(Number(event.target.dataset.i)); });
}
place.addEventListener("keydown", (event) => {
  const to = { ArrowRight: chosen + 1, ArrowLeft: chosen - 1, Home: 1, End: found?.tokens.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  reach(to);
});
at("flow-text").addEventListener("input", debounced(() => analyze(), 350));

export const flow = {
  show(next) {
    const same = run?.name === next.name;
    run = next;
    if (same && found) return;
    found = null;
    at("flow-text").value = "";
    at("flow-found").hidden = true;
    at("flow-layers").replaceChildren();
    layer = 0;
    analyze({ sample: true });
  },
};
