// Write: a prompt, sliders, and the text as it is generated.

import { post } from "./api.js";
import { at, reducedMotion, count, make, number, debounced } from "./dom.js";
import { openInspector, startInspector } from "./inspector.js";
import { streamTokens } from "./sampling.js";
import { ShadedText, describe } from "./text.js";

const SAMPLE_TOKENS = 3000; // length of the sample in which units are searched

let run = null, stop = null, started = false, last = null;
const mode = () => document.querySelector("[name=shade]:checked").value;
const text = new ShadedText(at("text"), {
  choose: (i) => openInspector(text, i, (prompt) => { at("prompt").value = prompt; begin(); }),
  hover: (cell) => { at("readout").textContent = describe(cell, mode()); },
});

const sliders = ["temperature", "top-p", "length"];
const value = (id) => Number(at(id).value);
const unit = () => (mode() === "unit" ? { layer: value("layer"), state: at("unit-state").value, unit: value("unit") } : null);
const setStatus = (text, wrong = false) => {
  at("write-status").textContent = text;
  at("write-status").classList.toggle("wrong", wrong);
};

function settings() {
  const seed = Math.max(0, Math.floor(value("seed")) || 0);
  return { prompt: at("prompt").value, temperature: value("temperature"), top_p: value("top-p"), max_tokens: value("length"), seed };
}

/** Shows tokens one after the other, never far behind their arrival; all at once with reduced motion. */
class Reveal {
  constructor(slowly) { this.queue = []; this.slowly = slowly; this.over = false; }

  add(tokens) {
    if (!this.slowly) return text.add(tokens);
    this.queue.push(...tokens);
    this.frame ??= requestAnimationFrame(() => this.#turn());
  }

  #turn() {
    this.frame = null;
    if (this.over) return;
    text.add(this.queue.splice(0, Math.max(2, Math.ceil(this.queue.length / 25))));
    if (this.queue.length) this.frame = requestAnimationFrame(() => this.#turn());
    else this.empty?.();
  }

  end() { return new Promise((done) => { if (this.queue.length) this.empty = done; else done(); }); }

  drop() { this.over = true; this.empty?.(); }
}

async function begin({ again = null, slowly = !reducedMotion.matches } = {}) {
  stop?.();
  const control = new AbortController(), reveal = new Reveal(slowly), began = performance.now();
  stop = () => { control.abort(); reveal.drop(); };
  last = again ?? settings();
  let first = null, tokens = 0, fresh = true;
  at("halt").hidden = false;
  setStatus("");
  try {
    for await (const part of streamTokens(run, { ...last, unit: unit() }, control.signal)) {
      if (fresh) { text.clear(); at("text").hidden = false; at("readout").textContent = ""; fresh = false; }
      first ??= performance.now() - began;
      tokens += part.filter((token) => !token.given).length;
      reveal.add(part);
    }
    const seconds = (performance.now() - began) / 1000;
    if (fresh) { text.clear(); at("text").hidden = true; }
    await reveal.end();
    if (!control.signal.aborted) setStatus(stats(tokens, first ?? 0, seconds));
  } catch (error) {
    if (error.name === "AbortError") return;
    reveal.drop();
    setStatus(error.message.replace(/^prompt: /, ""), true);
  } finally {
    if (!control.signal.aborted) { at("halt").hidden = true; stop = null; }
  }
}

function stats(tokens, first, seconds) {
  const kind = { char: "characters", byte: "bytes", word: "words", bpe: "subwords" }[run.config.tokens];
  const surprises = text.cells.map((cell) => cell.surprise).filter((nats) => nats !== null);
  const mean = surprises.reduce((a, b) => a + b, 0) / Math.max(1, surprises.length);
  const surprise = `mean surprise ${number(mean, 2)} nats`;
  return tokens ? `${count(tokens)} ${kind}, ${surprise} · first response after ${count(first)} ms · ${count(tokens / seconds)} per second` : `Only analyzed: ${surprise}`;
}

function legend() {
  const found = mode();
  at("unit-choice").hidden = found !== "unit";
  at("legend").hidden = found === "none";
  at("legend").dataset.mode = found;
  const ends = found === "unit" ? ["−1", "0", "+1"] : ["expected", "surprising"];
  at("legend").replaceChildren(make("i"), ...ends.map((end) => make("span", {}, end)));
}

async function findUnits() {
  const button = at("find-units");
  button.disabled = true;
  button.textContent = "Searching …";
  const kept = last ?? settings();
  try {
    const sample = await post("/v1/completions", { model: run.name, prompt: "", max_tokens: SAMPLE_TOKENS, temperature: 0.8, seed: kept.seed });
    const { features } = await post("/v1/elman/look/units", { model: run.name, text: sample.choices[0].text, count: 1 });
    at("found-units").replaceChildren(...features.slice(0, 8).map(({ feature, measure, units: [best] }) =>
      make("li", {}, make("button", { type: "button", onclick: () => chooseUnit(best) },
        make("b", {}, feature), make("span", {}, `${best.state === "c" ? "c of " : ""}unit ${best.unit}${run.config.layers > 1 ? `, layer ${best.layer}` : ""} · ${measure} ${number(best.score, 2)}`)))),
      make("li", { class: "hint" }, "How well the unit tracks the feature: 1 is perfect. Chance is 0.5 for AUC (of a yes-or-no feature), 0 for R² (of a number)."));
  } catch (error) {
    at("found-units").replaceChildren(make("li", { class: "wrong" }, error.message));
  } finally {
    button.disabled = false;
    button.textContent = "Find units that track a feature";
  }
}

function chooseUnit({ layer, state = "h", unit: number_ }) {
  at("unit-state").value = state;
  at("layer").value = layer;
  at("unit").value = number_;
  shadeAgain();
}

/** The same text with another unit: the same seed gives the same text. */
function shadeAgain() {
  legend();
  text.shade(mode());
  if (mode() === "unit" && last && run) begin({ again: last, slowly: false });
}

function start() {
  started = true;
  startInspector();
  const rewrite = debounced(() => { if (last && run) begin({ slowly: false }); }, 180);
  for (const id of sliders) {
    const shown = document.querySelector(`output[for=${id}]`);
    const show = () => { shown.textContent = id === "length" ? (value(id) ? count(value(id)) : "only analyze") : value(id).toFixed(2); };
    at(id).addEventListener("input", () => { show(); rewrite(); });
    show();
  }
  at("seed").addEventListener("input", rewrite);
  at("dice").addEventListener("click", () => { at("seed").value = Math.floor(Math.random() * 1e6); if (run) begin(); });
  at("go").addEventListener("click", () => begin());
  at("halt").addEventListener("click", () => { stop?.(); stop = null; at("halt").hidden = true; setStatus("Stopped."); });
  at("prompt").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); begin(); }
  });
  for (const radio of document.querySelectorAll("[name=shade]")) radio.addEventListener("change", shadeAgain);
  for (const id of ["layer", "unit", "unit-state"]) at(id).addEventListener("change", shadeAgain);
  at("find-units").addEventListener("click", findUnits);
  legend();
}

export const write = {
  show(found) {
    if (!started) start();
    const same = run?.name === found.name;
    run = found;
    if (same) return;
    for (const [id, most] of [["unit", found.config.hidden], ["layer", found.config.layers]]) {
      at(id).max = most - 1;
      at(id).value = Math.min(value(id), most - 1);
    }
    at("unit-state").value = "h";
    at("unit-state-field").hidden = found.config.cell !== "lstm";
    text.clear();
    at("text").hidden = true;
    at("found-units").replaceChildren();
    at("readout").textContent = "";
    begin(); // so that a text is shown at once
  },
};
