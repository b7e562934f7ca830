// A drawing of the unrolled network, which shows the values that the equations have computed so far.

import { draw, number, visible } from "./dom.js";
import { largest, named, tint } from "./values.js";

const LEFT = 74, BOX = 108, STATE = 46, CELL = 30, BARS = 58; // pixels
export const BACK = ["backward", "gradients", "update"];
const GATES = ["i", "f", "g", "o_gate", "r", "z", "n"], BOUNDED = ["h", "y_hat", ...GATES]; // at most 1

export class Unrolled {
  constructor(data, choose) {
    Object.assign(this, { data, choose, T: data.tokens.length, layers: data.network.layers });
    this.lstm = data.network.cell === "lstm"; // it has a cell state c besides h
    this.below = 62 + (this.lstm ? CELL + 26 : 0);
    this.nodes = new Map(); // key: {box, cells or bars, caption, entries: [[step, entry], …]}
    this.edges = []; // {path, kind, t, layer}
    this.pitch = this.T < 5 ? 184 : 148;
    this.top = 70 + BARS; // the bottom of the bars
    this.width = LEFT + 54 + this.T * this.pitch + 196;
    this.height = this.top + this.layers * (STATE + this.below) + 70;
    this.svg = draw("svg", { viewBox: `0 0 ${this.width} ${this.height}`, width: this.width, height: this.height, role: "img",
      "aria-label": `The network, unrolled over ${this.T} steps` });
    this.#arrows();
    this.#labels();
    for (let t = 0; t < this.T; t += 1) this.#column(t);
    this.#initial();
    this.#loss();
    this.#collect();
  }

  x(t) { return LEFT + 54 + (t + 1) * this.pitch; } // the center of a column; t = -1 is h[0]'s

  y(layer) { return this.top + 50 + (this.layers - 1 - layer) * (STATE + this.below); } // the top of a state

  c(layer) { return this.y(layer) + STATE + 26; } // the top of a cell state

  bottom(layer) { return this.lstm ? this.c(layer) + CELL : this.y(layer) + STATE; }

  #arrows() {
    const head = (id) => draw("marker", { id, viewBox: "0 0 8 8", refX: 6.5, refY: 4, markerWidth: 10, markerHeight: 10, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, draw("path", { d: "M0 .8 7 4 0 7.2z" }));
    this.svg.append(draw("defs", {}, head("plain"), head("forward"), head("backward")));
  }

  #label(x, y, text, more = {}) {
    const node = draw("text", { x, y, ...more }, text);
    this.svg.append(node);
    return node;
  }

  #labels() {
    this.rows = []; // their names: y_hat and h in the forward pass, d_o and d_h in the backward pass
    const row = (y, text, back = text) => this.rows.push({ node: this.#label(8, y, text, { class: "row" }), text, back });
    row(28, "target");
    row(this.top - 18, "y_hat", "d_o");
    for (let layer = 0; layer < this.layers; layer += 1) {
      const of = this.layers > 1 ? ` · ${layer}` : "";
      row(this.y(layer) + STATE / 2 + 4, `h${of}`, `d_h${of}`);
      if (this.lstm) row(this.c(layer) + CELL / 2 + 4, `c${of}`, `d_c${of}`);
    }
    row(this.height - 20, "input");
  }

  #edge(kind, t, layer, d) {
    const path = draw("path", { d, class: "edge", "marker-end": "url(#plain)" });
    this.svg.append(path);
    this.edges.push({ path, kind, t, layer });
  }

  #group(key, step) {
    const group = draw("g", { class: "node", "data-key": key });
    if (step) group.addEventListener("click", () => this.choose(step));
    this.svg.append(group);
    this.nodes.set(key, { group, entries: [] });
    return group;
  }

  #cells(key, x, y, count, step, height = STATE) {
    const group = this.#group(key, step), rows = count > 6 ? 2 : 1, per = Math.ceil(count / rows);
    const w = (BOX - 10) / per, h = (height - 10) / rows;
    group.append(draw("rect", { class: "box", x: x - BOX / 2, y, width: BOX, height, rx: 10 }));
    const cells = Array.from({ length: count }, (_, i) => draw("rect", { class: "cell", rx: 4, width: w - 3, height: h - 3,
      x: x - BOX / 2 + 6.5 + (i % per) * w, y: y + 6.5 + Math.floor(i / per) * h }));
    const caption = draw("text", { class: "caption", x: x + 9, y: y + height + 15 });
    group.append(...cells, caption);
    Object.assign(this.nodes.get(key), { cells, caption });
  }

  #bars(t) {
    const key = `o:${t}`, group = this.#group(key, ["y_hat", t, this.layers - 1]), { labels } = this.data.axes.Y, x = this.x(t), foot = this.top - 14;
    const w = (BOX - 10) / labels.length;
    group.append(draw("rect", { class: "box", x: x - BOX / 2, y: foot - BARS + 8, width: BOX, height: BARS + 6, rx: 10 }));
    const bars = labels.map((label, i) => {
      const left = x - BOX / 2 + 5 + i * w;
      group.append(draw("text", { class: "label", x: left + w / 2, y: foot + 9, "text-anchor": "middle" }, visible(label).slice(0, 3)));
      const bar = draw("rect", { class: "bar", x: left + 1.5, width: Math.max(2, w - 3), y: foot - 1, height: 1, rx: 2 });
      const hit = draw("rect", { class: "hit", x: left, width: w, y: foot - BARS + 8, height: BARS + 6 });
      group.append(bar, hit);
      return { bar, hit, foot };
    });
    const caption = draw("text", { class: "caption", x: x + BOX / 2 - 2, y: foot - BARS + 2, "text-anchor": "end" });
    group.append(caption);
    Object.assign(this.nodes.get(key), { bars, caption });
  }

  #column(t) {
    const x = this.x(t), count = this.data.axes.H.indices.length, [reads, target] = this.data.tokens[t];
    for (let layer = 0; layer < this.layers; layer += 1) {
      const y = this.y(layer);
      this.#edge("W_hh", t, layer, `M${this.x(t - 1) + BOX / 2 + 3} ${y + STATE / 2}H${x - BOX / 2 - 5}`);
      this.#edge("W_xh", t, layer, layer ? `M${x} ${this.y(layer - 1) - 4}V${this.bottom(layer) + 5}` : `M${x} ${this.height - 45}V${this.bottom(layer) + 5}`);
      if (this.lstm) {
        this.#edge("c", t, layer, `M${x} ${this.c(layer) - 4}V${y + STATE + 5}`);
        this.#edge("carry", t, layer, `M${this.x(t - 1) + BOX / 2 + 3} ${this.c(layer) + CELL / 2}H${x - BOX / 2 - 5}`);
        this.#cells(`c:${layer}:${t + 1}`, x, this.c(layer), count, ["c", t, layer], CELL);
      }
      this.#cells(`h:${layer}:${t + 1}`, x, y, count, ["h", t, layer]);
    }
    this.#edge("W_hy", t, this.layers - 1, `M${x} ${this.y(this.layers - 1) - 4}V${this.top + 5}`);
    this.#bars(t);
    const token = this.#group(`x:${t}`, ["x", t, 0]);
    token.append(draw("circle", { class: "box", cx: x, cy: this.height - 24, r: 18 }), draw("text", { class: "token", x, y: this.height - 18, "text-anchor": "middle" }, visible(reads).slice(0, 7)));
    this.svg.append(draw("text", { class: "token says", x, y: 30, "text-anchor": "middle" }, visible(target).slice(0, 9)));
  }

  #initial() {
    const count = this.data.axes.H.indices.length;
    for (let layer = 0; layer < this.layers; layer += 1) {
      this.#cells(`h:${layer}:0`, this.x(-1), this.y(layer), count, ["d_h0", null, layer]);
      if (this.lstm) this.#cells(`c:${layer}:0`, this.x(-1), this.c(layer), count, ["d_c0", null, layer], CELL);
    }
    const first = this.x(0), under = this.bottom(0);
    this.names = {
      W_hh: this.#label((this.x(-1) + first) / 2, this.y(this.layers - 1) + STATE / 2 - 9, "W_hh", { class: "weight", "text-anchor": "middle" }),
      W_xh: this.#label(first - 7, under + 24, "W_xh", { class: "weight", "text-anchor": "end" }),
      W_hy: this.#label(first - 7, this.top + 30, "W_hy", { class: "weight", "text-anchor": "end" }),
    };
  }

  #loss() {
    const x = this.x(this.T - 1) + BOX / 2 + 26, group = this.#group("L", ["L", null, this.layers - 1]);
    const words = draw("text", { class: "token", x: x + 54, y: this.top - 30, "text-anchor": "middle" });
    group.append(draw("rect", { class: "box", x, y: this.top - 54, width: 108, height: 36, rx: 10 }), words);
    this.nodes.get("L").words = words;
  }

  /** The values of each node, and the step that computes them. */
  #collect() {
    const most = new Map();
    for (const { name, result } of this.data.steps) most.set(name, Math.max(most.get(name) ?? 0, largest([result.values])));
    this.data.steps.forEach((step, i) => {
      const key = keyOf(step);
      if (!key) return;
      const values = step.result.axes.startsWith("B") ? step.result.values[0] : step.result.values;
      const full = BOUNDED.includes(step.name) ? 1 : most.get(step.name);
      this.nodes.get(key)?.entries.push([i, { symbol: step.symbol, values, full, signed: step.name !== "y_hat" }]);
    });
    const zeros = Array(this.data.axes.H.indices.length).fill(0);
    for (let layer = 0; layer < this.layers; layer += 1) this.nodes.get(`h:${layer}:0`).entries.unshift([-1, { symbol: "h[0]", values: zeros, full: 1 }]);
    if (this.lstm) for (let layer = 0; layer < this.layers; layer += 1) this.nodes.get(`c:${layer}:0`).entries.unshift([-1, { symbol: "c[0]", values: zeros, full: 1 }]);
  }

  show(now) {
    const step = this.data.steps[now], back = BACK.includes(step.phase), lit = litBy(step, this.T, this.layers);
    this.svg.classList.toggle("back", back);
    for (const row of this.rows) row.node.textContent = back ? row.back : row.text;
    for (const [key, node] of this.nodes) {
      const entry = node.entries.filter(([i]) => i <= now).at(-1)?.[1];
      node.group.classList.toggle("known", Boolean(entry));
      node.group.classList.toggle("now", key === keyOf(step) || lit.nodes.includes(key));
      if (node.words) node.words.textContent = entry ? `L = ${number(entry.values, 2)}` : "L";
      if (node.caption) node.caption.textContent = entry?.symbol ?? "";
      node.cells?.forEach((cell, i) => this.#fill(cell, cell, entry, i, "H"));
      node.bars?.forEach(({ bar, hit, foot }, i) => {
        const value = entry?.values[i] ?? 0, most = entry?.signed ? (BARS - 14) / 2 : BARS - 14, zero = entry?.signed ? foot - most : foot;
        const height = Math.max(1, Math.min(1, Math.abs(value) / (entry?.full || 1)) * most);
        bar.setAttribute("height", height.toFixed(1));
        bar.setAttribute("y", (value < 0 ? zero : zero - height).toFixed(1)); // negative values point down
        this.#fill(bar, hit, entry, i, "Y");
      });
    }
    for (const { path, kind, t, layer } of this.edges) {
      const on = lit.edges(kind, t, layer);
      path.classList.toggle("on", on);
      path.setAttribute(back ? "marker-start" : "marker-end", on ? `url(#${back ? "backward" : "forward"})` : back ? "" : "url(#plain)");
      path.setAttribute(back ? "marker-end" : "marker-start", back && !on ? "url(#plain)" : "");
    }
    for (const [kind, words] of Object.entries(this.names)) words.classList.toggle("on", lit.weights.includes(kind));
    return this.nodes.get(keyOf(step))?.group ?? null;
  }

  #fill(node, hover, entry, i, axis) {
    tint(node, entry?.values[i] ?? null, entry?.full);
    const label = named(axis, this.data.axes[axis].labels[i]);
    hover.dataset.tip = entry ? `${entry.symbol}, ${label}\n${number(entry.values[i], 6)}` : "";
  }
}

function keyOf({ name, t, layer }) {
  if (name === "x") return `x:${t}`;
  if (name === "c" || name === "d_c") return `c:${layer}:${t + 1}`;
  if (name === "d_h0" || name === "d_c0") return `${name[2]}:${layer}:0`;
  if (["o", "y_hat", "d_o"].includes(name)) return `o:${t}`;
  if (name === "L") return "L";
  return t === null ? null : `h:${layer}:${t + 1}`; // a, h, gates and their gradients
}

/** Which edges, weights and other nodes a step uses. */
function litBy({ name, t, layer }, T, layers) {
  const all = (kind) => (k, _, l) => k === kind && l === layer;
  const none = { edges: () => false, weights: [], nodes: [] };
  const times = (key) => Array.from({ length: T }, (_, i) => key(i));
  return { ...none, ...({
    a: { edges: (k, s, l) => s === t && l === layer && (k === "W_xh" || k === "W_hh"), weights: ["W_xh", "W_hh"] },
    ...Object.fromEntries(GATES.map((gate) => [gate, { edges: (k, s, l) => s === t && l === layer && (k === "W_xh" || k === "W_hh"), weights: ["W_xh", "W_hh"] }])),
    q: { edges: (k, s, l) => k === "W_hh" && s === t && l === layer, weights: ["W_hh"] },
    c: { edges: (k, s, l) => k === "carry" && s === t && l === layer },
    h: { edges: (k, s, l) => k === "c" && s === t && l === layer },
    d_c: { edges: (k, s, l) => l === layer && ((k === "carry" && s === t + 1) || (k === "c" && s === t)) },
    d_c0: { edges: (k, s, l) => k === "carry" && s === 0 && l === layer },
    o: { edges: (k, s) => k === "W_hy" && s === t, weights: ["W_hy"] },
    d_h: {
      edges: (k, s, l) => (k === "W_hh" && s === t + 1 && l === layer) || (layer === layers - 1 ? k === "W_hy" && s === t : k === "W_xh" && s === t && l === layer + 1),
      weights: ["W_hh", layer === layers - 1 ? "W_hy" : "W_xh"],
    },
    L: { nodes: times((i) => `o:${i}`) },
    d_W_hy: { edges: all("W_hy"), weights: ["W_hy"] },
    d_W_hh: { edges: all("W_hh"), weights: ["W_hh"] },
    d_W_xh: { edges: all("W_xh"), weights: ["W_xh"] },
    d_b_y: { nodes: times((i) => `o:${i}`) },
    d_b_h: { nodes: times((i) => `h:${layer}:${i + 1}`) },
    d_h0: { edges: (k, s, l) => k === "W_hh" && s === 0 && l === layer, weights: ["W_hh"] },
  })[name] };
}
