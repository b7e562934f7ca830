// Learn: the metrics of a run, during training or after it.

import { get, remove, stream } from "./api.js";
import { drawCurves } from "./curves.js";
import { at, count, make, number, percent } from "./dom.js";
import { refresh } from "./state.js";
import { startTraining } from "./training.js";

const REDRAW = 300; // milliseconds between two drawings
let run = null, rows = [], training = false, control = null, drawing = null, follows = true;
let startedHere = []; // the trainings that were started from the page

const tile = (value, what, more = "") => make("div", { class: "tile" }, make("b", {}, value, more && make("small", {}, more)), make("span", {}, what));

/** Not the mean: single rows include the time of a validation or a checkpoint. */
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

const idleState = () => (!rows.length || !run.steps ? "idle" : rows.at(-1).step >= run.steps ? "finished" : "stopped");

function drawHead() {
  const { config } = run, kind = !config?.cell || config.cell === "rnn" ? config?.activation : config.cell.toUpperCase();
  const facts = config ? [`${config.layers} × ${config.hidden} ${kind} units`, run.vocabulary && `${run.vocabulary} ${config.tokens} tokens`,
    run.corpus && run.corpus !== "stdin" && `on ${run.corpus}`, run.tokens && `${count(run.tokens)} tokens`].filter(Boolean).join(" · ") : "";
  const stoppable = startedHere.some((found) => found.name === run.name && found.state === "running");
  at("run-head").replaceChildren(
    make("div", {}, make("h1", {}, run.name), make("p", { class: "note" }, facts)),
    make("p", { class: "state" }, make("span", { class: training ? "badge live" : "badge" }, training ? "training" : idleState()),
      stoppable ? make("button", { type: "button", id: "stop-training", onclick: stopTraining }, "Stop") : null));
}

/** The row with the lowest validation loss: that of the model that is kept. */
const bestRow = () => rows.filter((row) => row.validation_loss != null).reduce((a, b) => (a && a.validation_loss <= b.validation_loss ? a : b), null);

function drawTiles() {
  const last = rows.at(-1), best = bestRow();
  at("tiles").replaceChildren(...(last ? [
    tile(count(last.step), "steps", run.steps ? ` / ${count(run.steps)}` : ""),
    tile(number(last.epoch, 1), "epochs"),
    tile(number(last.loss, 3), `loss, ${run.loss_unit}`),
    best && tile(number(best.validation_loss, 3), `best validation loss, at step ${count(best.step)}`),
    best?.validation_accuracy != null && tile(percent(best.validation_accuracy, 1), "accuracy at this step"),
    tile(count(median(rows.map((row) => row.tokens_per_second))), "tokens per second (median)"),
    tile(`${count(last.seconds)} s`, training ? "so far" : "in total"),
  ].filter(Boolean) : []));
  const share = last && run.steps ? Math.min(1, last.step / run.steps) : 0;
  at("run-head").style.setProperty("--share", training ? share.toFixed(4) : 0);
}

function drawSamples(toEnd) {
  const found = rows.filter((row) => row.sample), slider = at("sample-step");
  at("samples").hidden = !found.length;
  if (!found.length) return null;
  slider.max = found.length - 1;
  const best = bestRow(), kept = training || !best ? found.length - 1 : Math.max(0, found.findLastIndex((row) => row.step <= best.step));
  if (toEnd) slider.value = kept;
  const row = found[Math.min(Number(slider.value), found.length - 1)];
  at("sample-at").textContent = `${count(row.step)}${row.validation_loss == null ? "" : ` · validation ${number(row.validation_loss, 2)}`}${best && row.step > best.step ? ` · later than the kept model, of step ${count(best.step)}` : ""}`;
  at("sample-text").textContent = row.sample.trim();
  return row.step;
}

function drawAll() {
  drawing = null;
  drawHead();
  drawTiles();
  const marked = drawSamples(follows);
  const none = rows.length === 0;
  at("curves").hidden = none;
  at("learn-status").hidden = !none;
  if (none) at("learn-status").textContent = training ? "No metrics yet." : "This run has no metrics: it was saved or imported as a model.";
  else drawCurves(rows, run, marked);
  at("loss-unit").textContent = run.loss_unit;
}

const drawSoon = () => { drawing ??= setTimeout(drawAll, REDRAW); };

/** Follows the rows of a run for as long as it is shown. */
async function follow(name, signal) {
  let fresh = true; // a new connection sends all rows again
  for await (const { event, data } of stream(`/v1/elman/runs/${encodeURIComponent(name)}/events`, { signal })) {
    const value = JSON.parse(data);
    if (event === "reset" || fresh) rows = [];
    fresh = false;
    if (event === "rows") rows.push(...value);
    if (event === "state") {
      const ended = training && !value.training;
      training = value.training;
      if (ended) refresh().catch(() => {});
      startedHere = (await get("/v1/elman/trainings")).data;
    }
    if (rows.length && !at("curves").hidden) drawSoon(); else { clearTimeout(drawing); drawAll(); }
  }
  await refresh(); // the stream ends when the service does
  throw new Error("The service has ended the stream of metrics.");
}

async function stopTraining() {
  at("stop-training").disabled = true;
  await remove(`/v1/elman/trainings/${encodeURIComponent(run.name)}`);
  startedHere = (await get("/v1/elman/trainings")).data;
  training = false;
  drawAll();
  refresh();
}

function leave() {
  control?.abort();
  control = null;
  clearTimeout(drawing);
  drawing = null;
}

at("sample-step").addEventListener("input", () => {
  const slider = at("sample-step");
  follows = training && slider.value === slider.max;
  drawCurves(rows, run, drawSamples(false));
});

export const learn = {
  show(found) {
    startTraining();
    for (const id of ["run-head", "tiles"]) at(id).hidden = !found;
    at("new-training").open ||= !found;
    if (!found) {
      at("curves").hidden = at("samples").hidden = true;
      at("learn-status").hidden = false;
      at("learn-status").textContent = "No run is served yet. Train a small model here, or in a terminal: elman train --seconds 60";
      return;
    }
    const same = control && run?.name === found.name;
    run = found;
    if (same) return drawSoon();
    leave();
    rows = [];
    training = found.training;
    follows = true;
    control = new AbortController();
    at("curves").hidden = true;
    drawAll();
    follow(found.name, control.signal).catch((error) => {
      if (error.name === "AbortError") return;
      control = null; // show() follows again when the service is back
      training = false;
      drawHead();
      drawTiles();
      at("learn-status").hidden = rows.length > 0;
      at("learn-status").textContent = error.message;
    });
  },
  hide: leave,
};
