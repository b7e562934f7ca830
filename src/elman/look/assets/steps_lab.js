"use strict";
// Edits of a weight, training steps and the gain of W_hh: each recomputes every number of the page.

const LEARNED = 0.5; // probability of a target from which it counts as learned
const MOST_STEPS = 2000; // maximum number of training steps until learned
const PLOTTED = 128; // maximum number of units for the plot: the product takes units³ multiplications for each step
const JACOBIANS = 24; // factors of the product in the plot

class Lab {
  constructor(data, changed) {
    Object.assign(this, { data, changed, net: data.network, ids: data.ids, gain: 1, count: 0, running: 0 });
    this.P = structuredClone(data.parameters);
    at("rate").value = data.learning_rate;
    at("limit").value = data.clip_norm;
    this.first = passes(this.net, this.P, this.ids).output.L;
    this.#fill();
    this.#listen();
    this.update(false);
  }

  #fill() {
    at("parameter").replaceChildren(...Object.keys(this.P).map((name) => make("option", { value: name }, name.replace(/^layers\.0\./, this.net.layers > 1 ? "layers.0." : "").replace("head.", ""))));
    at("parameter").value = "layers.0.W_hh";
    at("lab").hidden = false;
  }

  #listen() {
    at("parameter").addEventListener("change", () => this.#table());
    for (const id of ["rate", "limit"]) at(id).addEventListener("input", () => this.update(false));
    at("train").addEventListener("click", () => { this.stop(); this.train(); });
    at("learn").addEventListener("click", () => (this.running ? this.stop() : this.learn()));
    at("reset").addEventListener("click", () => this.reset());
    at("gain").addEventListener("input", () => this.setGain(Number(at("gain").value)));
  }

  /** The axes of the rows and of the columns of a parameter; a bias has no axis of rows. */
  #axes(name) {
    const [short, axes] = [name.split(".").at(-1), this.data.axes], wide = this.net.cell === "rnn" ? axes.H : axes.G, below = name.startsWith("layers.0.") ? axes.X : axes.H;
    return { W_xh: [below, wide], W_hh: [axes.H, wide], b_h: [null, wide], b_hn: [null, axes.H], W_hy: [axes.H, axes.Y], b_y: [null, axes.Y] }[short];
  }

  #table() {
    const name = at("parameter").value, [, across] = this.#axes(name), wide = across === this.data.axes.G ? this.data.axes.H.indices.length : across.indices.length;
    const blocks = Array.from({ length: across.indices.length / wide }, (_, block) => this.#block(name, block * wide, wide)); // one for each gate
    at("weights").replaceChildren(...blocks);
  }

  /** Some columns of a parameter. */
  #block(name, first, wide) {
    const p = this.P[name], [down, all] = this.#axes(name), table = make("table", { class: "weights" });
    const across = { labels: all.labels.slice(first, first + wide), indices: all.indices.slice(first, first + wide) };
    table.append(make("tr", {}, make("th"), ...across.labels.map((label) => make("th", { scope: "col" }, visible(label)))));
    const rows = down ? down.indices : [null];
    rows.forEach((i, number) => {
      const label = down ? visible(down.labels[number]) : "", line = make("tr", {}, make("th", { scope: "row" }, label));
      across.indices.forEach((j, column) => {
        const row = i === null ? p : p[i], input = make("input", { type: "number", step: "0.1", value: String(Number(row[j].toFixed(3))), "aria-label": `${name} ${label} ${across.labels[column]}` });
        input.addEventListener("input", () => {
          const value = Number(input.value);
          if (input.value === "" || !Number.isFinite(value)) return;
          this.stop();
          row[j] = value;
          this.update(false);
        });
        line.append(make("td", {}, input));
      });
      table.append(line);
    });
    return table;
  }

  setGain(gain) {
    this.stop();
    const factor = gain / this.gain;
    for (const [name, p] of Object.entries(this.P)) if (name.endsWith("W_hh")) p.forEach((row) => row.forEach((value, j) => { row[j] = value * factor; }));
    this.gain = gain;
    this.update();
  }

  train() {
    this.#step();
    this.update();
  }

  #step() {
    this.P = this.after;
    this.count += 1;
    this.#compute();
  }

  /** Both passes and the update. */
  #compute() {
    this.found = passes(this.net, this.P, this.ids, this.data.bptt_steps);
    this.after = update(this.net, this.P, this.found, Number(at("rate").value) || 0, Number(at("limit").value) || Infinity);
  }

  /** Whether every target has a probability above LEARNED: it is then the likeliest token of its step. */
  learned() {
    return this.found.output["y_hat[t]"].every((row, t) => row[this.ids[1][t]] > LEARNED);
  }

  learn() {
    at("learn").textContent = "Stop";
    const turn = () => {
      if (this.learned() || this.count >= MOST_STEPS || !Number.isFinite(this.found.output.L)) return this.stop();
      for (let i = 0; i < 5 && !this.learned(); i += 1) this.#step();
      this.update();
      this.running = requestAnimationFrame(turn);
    };
    this.running = requestAnimationFrame(turn);
  }

  stop() {
    cancelAnimationFrame(this.running);
    this.running = 0;
    at("learn").textContent = "Train until learned";
  }

  reset() {
    this.stop();
    this.P = structuredClone(this.data.parameters);
    Object.assign(this, { gain: 1, count: 0 });
    at("gain").value = 1;
    this.update();
  }

  /** Recompute and show everything. */
  update(table = true) {
    this.#compute();
    for (const step of this.data.steps) for (const value of [step.result, ...step.operands]) value.values = this.values(value, step.layer);
    const { L, "y_hat[t]": y_hat } = this.found.output, predicted = y_hat.map((row) => this.data.vocabulary[row.indexOf(Math.max(...row))]);
    at("loss").textContent = Number.isFinite(L) ? L.toFixed(4) : "not finite";
    const change = L - this.first;
    at("change").textContent = Math.abs(change) < 5e-5 ? "(unchanged)" : `${change < 0 ? "▼" : "▲"} ${Math.abs(change).toFixed(4)} since the start`;
    at("predicted").replaceChildren(...predicted.map((token, t) => make("span", { class: token === this.data.tokens[t][1] ? "right" : "wrong", title: `${(100 * y_hat[t][this.ids[1][t]]).toFixed(1)} % for the target` }, visible(token))));
    at("learned").textContent = this.learned() ? "✓ learned" : "not yet";
    at("steps-taken").textContent = `${this.count} training step${this.count === 1 ? "" : "s"}`;
    at("gain-value").textContent = `×${this.gain.toFixed(2)}`;
    if (table || !at("weights").firstChild) this.#table();
    this.#jacobians();
    this.changed();
  }

  /** The shown values of a quantity. */
  values({ key, t, loss, axes }, layer) {
    const q = (loss === null ? this.found.layers : this.found.losses[loss])[layer][key] ?? this.found.output[key], pick = (row, axis) => this.data.axes[axis].indices.map((i) => finite(row[i]));
    if (axes === "") return finite(q);
    if (t !== null) return [pick(q[t], axes.at(-1))];
    if (axes === "T") return q.map(finite);
    if (axes.length === 1) return pick(q, axes);
    if (axes[0] === "B") return [pick(q, axes[1])];
    const rows = axes[0] === "T" ? q : this.data.axes[axes[0]].indices.map((i) => q[i]);
    return rows.map((row) => pick(row, axes[1]));
  }

  #jacobians() {
    if (this.net.hidden > PLOTTED) return void (at("product").textContent = `It is plotted for up to ${PLOTTED} units.`);
    const norms = jacobianNorms(this.net, this.P, this.ids, JACOBIANS), width = 360, height = 200, left = 52, low = -6, high = 3;
    const x = (k) => left + (k * (width - left - 12)) / JACOBIANS, y = (value) => 10 + ((high - Math.min(Math.max(Math.log10(value || 1e-300), low), high)) * (height - 44)) / (high - low);
    const parts = [];
    for (let power = low; power <= high; power += 3) parts.push(draw("path", { d: `M${left} ${y(10 ** power)}H${width - 12}`, class: power ? "grid" : "grid one" }), draw("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end", class: "tick" }, power ? `1e${power}` : "1"));
    for (const k of [0, 6, 12, 18, 24]) parts.push(draw("text", { x: x(k), y: height - 20, "text-anchor": "middle", class: "tick" }, String(k)));
    parts.push(draw("text", { x: (left + width) / 2, y: height - 3, "text-anchor": "middle", class: "tick" }, "steps k"));
    parts.push(draw("path", { d: norms.map((value, k) => `${k ? "L" : "M"}${x(k).toFixed(1)} ${y(value).toFixed(1)}`).join(""), class: "curve" }));
    norms.forEach((value, k) => parts.push(draw("circle", { cx: x(k).toFixed(1), cy: y(value).toFixed(1), r: 3.5, class: "dot" }, draw("title", {}, `k = ${k}: ${value.toPrecision(3)}`))));
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "The norm of the product of Jacobians over the steps" }, ...parts);
    at("jacobians").replaceChildren(svg);
    const last = norms.at(-1), rate = last > 0 && Number.isFinite(last) ? last ** (1 / JACOBIANS) : last;
    const verdict = rate < 0.98 ? "the gradient vanishes" : rate > 1.02 ? "the gradient explodes" : "the gradient keeps its size";
    at("product").textContent = `×${Number.isFinite(rate) ? rate.toFixed(2) : "∞"} per step: ${verdict}. After ${JACOBIANS} steps the norm is ${Number.isFinite(last) ? shown(last) : "not finite"}.`;
    this.norms = norms;
  }
}

const finite = (value) => (Number.isFinite(value) ? value : null);
