// Predict: the outputs of a run for classify, tag, regress, generate or translate, with the contributions of the tokens or the attention weights.

import { post } from "./api.js";
import { attentionView } from "./attention.js";
import { attributionView } from "./attribution.js";
import { at, make, number, percent } from "./dom.js";

const SHOWN = 5; // classes or alternatives that are shown
const EXPLAINED = 8; // inputs whose contributions or attention weights are shown
let serial = 0;
let run = null;

const WORDS = {
  classify: ["Classify", "one text per line", "Classify"],
  regress: ["Estimate", "one sequence per line", "Estimate a number"],
  tag: ["Tag", "one sequence per line, tokens separated by spaces", "Tag each token"],
  generate: ["Generate", "one per line", "Generate a sequence"],
  translate: ["Translate", "one per line", "Translate"],
};

/** The lines, in the form that the run was trained on. */
function inputsOf(typed) {
  const { kind } = run.inputs;
  const lines = typed.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!lines.length) throw new Error("Type something first.");
  if (kind === "list") return lines.map((line) => line.split(/\s+/));
  if (kind === "numbers" || kind === "vector") {
    try {
      return lines.map((line) => JSON.parse(line));
    } catch {
      throw new Error("Write numbers as [1, 2.5, 3], or [[1, 2], [3, 4]] for several at each step.");
    }
  }
  return lines;
}

function form() {
  const [verb, how] = WORDS[run.task], { kind, labels } = run.inputs;
  const writes = ["generate", "translate"].includes(run.task);
  const status = make("p", { class: "status", role: "status" }), out = make("div", { class: "outputs" });
  const typed = make("textarea", { id: "predict-inputs", rows: 4, spellcheck: "false", placeholder: placeholder(kind) });
  const beam = make("input", { id: "predict-beam", type: "range", min: 1, max: 16, value: 4 });
  const width = make("output", { for: "predict-beam" }, "4");
  beam.addEventListener("input", () => { width.textContent = beam.value; });
  const search = make("div", { class: "slider", hidden: run.task === "generate" }, make("label", { for: "predict-beam" }, "Beam width"), width, beam,
    make("p", { class: "hint" }, "candidates that the beam search keeps"));
  const draw = make("input", { type: "checkbox", id: "predict-draw", checked: run.task === "generate", onchange: () => { search.hidden = draw.checked; } });
  const chips = (labels ?? []).slice(0, 40).map((label) => make("button", { type: "button", class: "chip", onclick: () => { typed.value = String(label); ask(); } }, String(label)));

  async function ask() {
    status.textContent = "";
    status.classList.remove("wrong");
    try {
      const inputs = inputsOf(typed.value);
      const options = !writes ? {} : draw.checked ? { temperature: 0.7, seed: Math.floor(Math.random() * 1e9) } : { beam: Number(beam.value), alternatives: run.task === "translate" ? Math.min(SHOWN, beam.value) : 0 };
      const { outputs } = await post("/v1/elman/predict", { model: run.name, inputs, ...options });
      out.replaceChildren(...outputs.map((found, i) => answer(inputs[i], found, i < EXPLAINED)));
    } catch (error) {
      status.textContent = error.message.replace(/^inputs: /, "");
      status.classList.add("wrong");
    }
  }

  typed.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
  });
  return make("div", { class: "card" }, make("h2", {}, WORDS[run.task][2]),
    make("label", { class: "field", for: "predict-inputs" }, labels ? "A label, such as those below" : `Input, ${kind === "numbers" ? "one sequence of numbers per line" : how}`),
    typed, chips.length ? make("p", { class: "chips" }, chips) : null,
    run.task === "generate" ? make("label", { class: "check" }, draw, " Sample a different sequence each time") : null, writes ? search : null,
    make("div", { class: "bar" }, make("button", { type: "button", class: "main", id: "predict-go", onclick: ask }, verb, " ", make("kbd", {}, "Ctrl ↵")), status), out);
}

function placeholder(kind) {
  if (kind === "numbers" || kind === "vector") return "[0.1, 0.5, 0.9]";
  return { classify: "Type some texts, one per line", tag: "The cat sat on the mat ." }[run.task] ?? "";
}

const shown = (value) => (Array.isArray(value) ? value.map((v) => (typeof v === "number" ? number(v) : v)).join(" ") : typeof value === "number" ? number(value) : String(value));

/** A translation, its alternatives, and the attention weights of the chosen one. */
function translation(input, output, alternatives, explain) {
  const attention = explain && run.config?.attention !== "none" ? attentionView(run, input) : null, group = `alternatives-${serial += 1}`;
  const best = make("b", {}, shown(output));
  const choose = (target) => { best.textContent = shown(target); attention?.show(target); };
  attention?.show(output);
  const choices = (alternatives ?? []).map(({ output: target, score }, i) => {
    const bar = make("i", { "aria-hidden": "true" });
    bar.style.setProperty("--share", Math.exp(score).toFixed(4));
    return make("li", {}, make("label", {}, make("input", { type: "radio", name: group, checked: i === 0, onchange: () => choose(target) }), make("span", {}, shown(target))), bar, make("span", {}, percent(Math.exp(score))));
  });
  return make("div", { class: "prediction" }, make("p", {}, make("span", {}, shown(input)), " → ", best),
    choices.length > 1 ? [make("ul", { class: "shares alternatives" }, choices), make("p", { class: "hint" }, "Alternatives of the beam search. The percentage is the probability per token (geometric mean); if all were cut off before their end, that of all tokens.")] : null, attention);
}

function answer(input, { output, probabilities, alternatives }, explain) {
  if (run.task === "translate") return translation(input, output, alternatives, explain);
  const why = explain && ["classify", "regress", "tag"].includes(run.task) ? attributionView(run, input) : null;
  if (run.task === "tag") {
    const tokens = Array.isArray(input) ? input : [...input];
    return make("div", { class: "prediction" }, make("div", { class: "tagged" }, tokens.map((token, i) =>
      make("button", { type: "button", class: "token", "data-tip": tipOf(probabilities?.[i]), onclick: () => why?.choose(i) }, make("b", {}, String(token)), make("i", {}, String(output[i]))))),
      make("p", { class: "hint" }, "Choose a tag to see how each token contributes to it."), why);
  }
  const best = Object.entries(probabilities ?? {}).sort((a, b) => b[1] - a[1]).slice(0, SHOWN);
  return make("div", { class: "prediction" }, make("p", {}, make("span", {}, shown(input)), " → ", make("b", {}, shown(output))),
    best.length ? make("ul", { class: "shares" }, best.map(([name, share]) => {
      const bar = make("i", { "aria-hidden": "true" });
      bar.style.setProperty("--share", share.toFixed(4));
      return make("li", {}, make("span", {}, name), bar, make("span", {}, percent(share)));
    })) : null, why);
}

const tipOf = (shares) => Object.entries(shares ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 3).map(([name, share]) => `${name} ${percent(share)}`).join("\n");

export const predict = {
  show(found) {
    const same = run?.name === found.name;
    run = found;
    if (!same) at("predict").replaceChildren(form());
  },
};
