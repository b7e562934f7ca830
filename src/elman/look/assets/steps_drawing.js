"use strict";
// A drawing of the unrolled network: its boxes show numbers as soon as the equations have computed them, forward and then
// backward. A bar above its line is positive, below it negative.

const BOX = 116, BAR = 46, GAP = 32, LEFT = 84, PITCH = 164; // pixels
const SVG = "http://www.w3.org/2000/svg";

function draw(tag, options = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(options)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

class Drawing {
  constructor(data, choose) {
    Object.assign(this, { data, choose, net: data.network, T: data.tokens.length });
    this.gates = { rnn: ["a"], gru: ["r", "z", "q", "n"], lstm: ["i", "f", "g", "o"] }[this.net.cell];
    this.rows = this.net.cell === "lstm" ? ["a", "c", "h"] : ["a", "h"]; // of a layer, from below
    this.boxes = new Map();
    this.edges = [];
    this.labels = [];
    const tall = this.rows.length * (BAR + GAP) * this.net.layers;
    this.bottom = 74 + BAR + GAP + tall; // the y coordinate of the input tokens
    this.height = this.bottom + 62;
    this.width = LEFT + (this.T + 1) * PITCH + 130;
    this.svg = draw("svg", { viewBox: `0 0 ${this.width} ${this.height}`, width: this.width, height: this.height, role: "img",
      "aria-label": `The ${this.net.cell} network, unrolled over ${this.T} steps` });
    const head = (id) => draw("marker", { id, viewBox: "0 0 8 8", refX: 6.5, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, draw("path", { d: "M0 .8 7 4 0 7.2z" }));
    this.svg.append(draw("defs", {}, head("plain"), head("lit")));
    for (let t = -1; t < this.T; t += 1) this.#column(t);
    this.#words();
    this.#loss();
    this.svg.append(this.rowNames); // above everything else
  }

  x(t) { return LEFT + (t + 1) * PITCH + BOX / 2; } // the middle of a column; t = -1 has the initial state

  y(row, layer) { return this.bottom - GAP - BAR - (layer * this.rows.length + this.rows.indexOf(row)) * (BAR + GAP); } // the top of a box

  #edge(kind, t, layer, d) {
    const path = draw("path", { d, class: "edge", "marker-end": "url(#plain)" });
    this.svg.append(path);
    this.edges.push({ path, kind, t, layer });
  }

  #box(key, x, y, groups, step) {
    const group = draw("g", { class: "box", "data-key": key });
    group.append(draw("rect", { x: x - BOX / 2, y, width: BOX, height: BAR, rx: 8, class: "frame" }), draw("path", { d: `M${x - BOX / 2 + 4} ${y + BAR / 2}h${BOX - 8}`, class: "line" }));
    const count = groups.reduce((sum, { labels }) => sum + labels.length, 0), w = (BOX - 12 - 4 * (groups.length - 1)) / count;
    const bars = new Map(), names = new Map(); // names: of the gates, where a box holds several
    let left = x - BOX / 2 + 6;
    for (const { name, labels } of groups) {
      bars.set(name, labels.map((label) => {
        const bar = draw("rect", { x: left + Math.min(1, w / 8), width: Math.max(1, w - Math.min(2, w / 4)), y: y + BAR / 2, height: 0, class: "bar" });
        const title = draw("title");
        const hit = draw("rect", { x: left, width: w, y, height: BAR, class: "hit" }, title);
        group.append(bar, hit);
        left += w;
        return { bar, title, label };
      }));
      if (groups.length > 1) names.set(name, draw("text", { x: left - (w * labels.length) / 2, y: y + BAR - 3, class: "gate", "text-anchor": "middle" }, name));
      left += 4;
    }
    const caption = draw("text", { x: x + 10, y: y - 5, class: "caption" }); // beside the arrow in the middle
    group.append(...names.values(), caption);
    if (step) group.addEventListener("click", () => this.choose(...step));
    this.svg.append(group);
    this.boxes.set(key, { group, bars, names, caption, y, seen: [] });
  }

  #column(t) {
    const x = this.x(t), units = this.data.axes.H.labels, side = BOX / 2;
    for (let layer = 0; layer < this.net.layers; layer += 1) {
      const [a, h] = [this.y("a", layer), this.y("h", layer)], c = this.y("c", layer);
      if (t >= 0) {
        const below = layer ? this.y("h", layer - 1) - 4 : this.bottom + 2;
        this.#edge("W_xh", t, layer, `M${x} ${below}V${a + BAR + 5}`);
        this.#edge("W_hh", t, layer, `M${this.x(t - 1) + side + 3} ${h + BAR / 2}C${x - side - 30} ${h + BAR / 2} ${this.x(t - 1) + side + 26} ${a + BAR / 2} ${x - side - 5} ${a + BAR / 2}`);
        if (this.net.cell === "lstm") {
          this.#edge("in", t, layer, `M${x} ${a - 4}V${c + BAR + 5}`);
          this.#edge("out", t, layer, `M${x} ${c - 4}V${h + BAR + 5}`);
          this.#edge("carry", t, layer, `M${this.x(t - 1) + side + 3} ${c + BAR / 2}H${x - side - 5}`);
        } else {
          this.#edge("in", t, layer, `M${x} ${a - 4}V${h + BAR + 5}`);
          if (this.net.cell === "gru") this.#edge("carry", t, layer, `M${this.x(t - 1) + side + 3} ${h + BAR / 2 - 12}H${x - side - 5}`);
        }
        this.#box(`a:${layer}:${t}`, x, a, this.gates.map((name) => ({ name, labels: units })), [this.gates[0] === "o" ? "o_gate" : this.gates[0], t, layer]);
      }
      if (this.net.cell === "lstm") this.#box(`c:${layer}:${t}`, x, c, [{ name: "c", labels: units }], t < 0 ? ["d_c0", null, layer] : ["c", t, layer]);
      this.#box(`h:${layer}:${t}`, x, h, [{ name: "h", labels: units }], t < 0 ? ["d_h0", null, layer] : ["h", t, layer]);
    }
    if (t < 0) return;
    const top = this.net.layers - 1, o = 66, [input, target] = this.data.tokens[t];
    this.#edge("W_hy", t, top, `M${x} ${this.y("h", top) - 4}V${o + BAR + 20}`);
    this.#box(`o:${t}`, x, o, [{ name: "o", labels: this.data.axes.Y.labels }], ["y_hat", t, top]);
    const labels = this.data.axes.Y.labels, w = (BOX - 12) / labels.length;
    labels.forEach((label, i) => this.svg.append(draw("text", { x: x - side + 6 + w * (i + 0.5), y: o + BAR + 13, class: "gate", "text-anchor": "middle" }, visible(label).slice(0, 3))));
    this.svg.append(draw("text", { x, y: 34, class: "token", "text-anchor": "middle" }, visible(target).slice(0, 9)));
    const token = draw("g", { class: "box", "data-key": `x:${t}` }, draw("circle", { cx: x, cy: this.bottom + 24, r: 18, class: "frame" }), draw("text", { x, y: this.bottom + 30, class: "token", "text-anchor": "middle" }, visible(input).slice(0, 7)));
    token.addEventListener("click", () => this.choose("x", t, 0));
    this.svg.append(token);
    this.boxes.set(`x:${t}`, { group: token, bars: new Map(), seen: [] });
  }

  #words() {
    this.rowNames = draw("g", { class: "rows" }, draw("rect", { x: 0, y: 0, width: 62, height: this.height }));
    const put = (y, forward, backward) => {
      const node = draw("text", { x: 6, y, class: "rowname" }, forward);
      this.rowNames.append(node);
      this.labels.push({ node, forward, backward });
    };
    put(34, "target", "target");
    put(66 + BAR / 2 + 5, "y_hat", "d_o");
    for (let layer = 0; layer < this.net.layers; layer += 1) {
      const of = this.net.layers > 1 ? ` · ${layer}` : "";
      put(this.y("h", layer) + BAR / 2 + 5, `h${of}`, `d_h${of}`);
      if (this.net.cell === "lstm") put(this.y("c", layer) + BAR / 2 + 5, `c${of}`, `d_c${of}`);
      put(this.y("a", layer) + BAR / 2 + 5, (this.gates.length > 1 ? "gates" : "a") + of, `d_a${of}`);
    }
    put(this.bottom + 30, "input", "input");
    const x = this.x(0), name = (at, y, text, kind) => { const node = draw("text", { x: at, y, class: "weight", "data-weight": kind, "text-anchor": "end" }, text); this.svg.append(node); };
    name(x - 8, this.bottom - 8, "W_xh", "W_xh");
    name(x - 8, this.y("h", this.net.layers - 1) - 14, "W_hy", "W_hy");
    name(x - BOX / 2 - 10, this.y("a", 0) + BAR / 2 + 18, "W_hh", "W_hh");
    if (this.net.cell !== "rnn") name(x - BOX / 2 - 1, (this.net.cell === "lstm" ? this.y("c", 0) + BAR / 2 : this.y("h", 0) + BAR / 2 - 12) - 6, this.net.cell === "lstm" ? "⊙ f" : "⊙ z", "carry");
  }

  /** Row names stay in view while the drawing is scrolled. */
  keepLabels(left) {
    this.rowNames.setAttribute("transform", `translate(${left} 0)`);
    this.rowNames.classList.toggle("moved", left > 0);
  }

  #loss() {
    const x = this.x(this.T - 1) + BOX / 2 + 22;
    const words = draw("text", { x: x + 50, y: 97, class: "token", "text-anchor": "middle" });
    const group = draw("g", { class: "box", "data-key": "L" }, draw("rect", { x, y: 74, width: 100, height: 36, rx: 8, class: "frame" }), words);
    group.addEventListener("click", () => this.choose("L", null, this.net.layers - 1));
    this.svg.append(group);
    this.boxes.set("L", { group, bars: new Map(), words, seen: [] });
  }

  /** The key of the box that an equation fills, and the name of its bars in this box. */
  place({ name, t, layer }) {
    const gate = name.replace(/^d_(a_)?(?=[a-z]$)/, "").replace("o_gate", "o");
    if (name === "x") return [`x:${t}`];
    if (name === "L") return ["L"];
    if (["o", "y_hat", "d_o"].includes(name)) return [`o:${t}`, "o"];
    if (["h", "d_h"].includes(name)) return [`h:${layer}:${t}`, "h"];
    if (["c", "d_c"].includes(name)) return [`c:${layer}:${t}`, "c"];
    if (name === "d_h0" || name === "d_c0") return [`${name[2]}:${layer}:-1`, name[2]];
    if (name === "d_a" || this.gates.includes(gate)) return [`a:${layer}:${t}`, name === "d_a" ? "a" : gate];
    return [null];
  }

  /** Read the numbers of all steps; called after every change of a weight. */
  take() {
    for (const box of this.boxes.values()) box.seen = [];
    const most = new Map();
    const flat = (step) => (step.result.axes.startsWith("B") ? step.result.values[0] : [].concat(step.result.values));
    for (const step of this.data.steps) most.set(step.name, Math.max(most.get(step.name) ?? 0, ...flat(step).map((v) => Math.abs(v ?? 0))));
    this.data.steps.forEach((step, i) => {
      const [key, bars] = this.place(step);
      if (!key || (!bars && key !== "L")) return;
      const bounded = ["h", "y_hat", "i", "f", "g", "o_gate", "r", "z", "n"].includes(step.name) && this.net.activation !== "identity" && this.net.activation !== "relu";
      this.boxes.get(key)?.seen.push({ i, bars, symbol: step.symbol, values: flat(step), full: bounded ? 1 : most.get(step.name), back: backward(step) });
    });
  }

  show(now) {
    const step = this.data.steps[now], back = backward(step), [here, bars] = this.place(step), lit = this.#lit(step);
    this.svg.classList.toggle("back", back);
    for (const label of this.labels) label.node.textContent = back ? label.backward : label.forward;
    for (const [key, box] of this.boxes) {
      const known = box.seen.filter(({ i }) => i <= now), latest = known.at(-1);
      box.group.classList.toggle("now", key === here);
      box.group.classList.toggle("old", back && box.bars.size > 0 && !latest?.back); // still a value of the forward pass
      if (box.words) box.words.textContent = latest ? `L = ${shown(latest.values[0])}` : "L";
      if (box.caption) box.caption.textContent = latest && box.names.size ? `${latest.back ? "d_a" : "gates"}[${key.split(":").at(-1)}]` : (latest?.symbol ?? "");
      for (const [name, node] of box.names ?? []) node.classList.toggle("on", key === here && name === bars);
      for (const [name, drawn] of box.bars) {
        const entry = known.filter((e) => e.bars === name && e.back === latest.back).at(-1); // no d_ beside forward values
        drawn.forEach(({ bar, title, label }, i) => {
          const value = entry?.values[i] ?? 0, size = Math.max(0.6, Math.min(1, Math.abs(value) / (entry?.full || 1)) * (BAR / 2 - 5));
          bar.setAttribute("y", (value > 0 ? box.y + BAR / 2 - size : box.y + BAR / 2).toFixed(2));
          bar.setAttribute("height", entry ? size.toFixed(2) : 0);
          bar.setAttribute("class", `bar ${value < 0 ? "minus" : "plus"}`);
          title.textContent = entry ? `${entry.symbol}, ${visible(label)}: ${entry.values[i] === null ? "not finite" : value.toPrecision(6)}` : "";
        });
      }
    }
    for (const { path, kind, t, layer } of this.edges) {
      const on = lit(kind, t, layer);
      path.classList.toggle("on", on);
      path.setAttribute("marker-end", back ? "" : `url(#${on ? "lit" : "plain"})`);
      path.setAttribute("marker-start", back ? `url(#${on ? "lit" : "plain"})` : ""); // gradients run against the arrows
    }
    const kinds = new Set(this.edges.filter(({ path }) => path.classList.contains("on")).map(({ kind }) => kind));
    for (const word of this.svg.querySelectorAll("[data-weight]")) word.classList.toggle("on", kinds.has(word.dataset.weight));
    return this.boxes.get(here)?.group ?? null;
  }

  /** A function of an edge: whether the equation uses it, so that it is highlighted. */
  #lit({ name, t, layer, loss }) {
    const at = (...kinds) => (k, s, l) => kinds.includes(k) && s === t && l === layer, top = this.net.layers - 1;
    if (name === "d_h") return (k, s, l) => (t !== loss && ["W_hh", ...(this.net.cell === "gru" ? ["carry"] : [])].includes(k) && s === t + 1 && l === layer) || (layer === top ? k === "W_hy" && s === t && (loss === null || t === loss) : k === "W_xh" && s === t && l === layer + 1);
    if (name === "d_c") return (k, s, l) => l === layer && ((k === "carry" && s === t + 1) || (k === "out" && s === t));
    if (name === "d_h0") return (k, s, l) => s === 0 && l === layer && ["W_hh", ...(this.net.cell === "gru" ? ["carry"] : [])].includes(k);
    if (name === "d_c0") return (k, s, l) => s === 0 && l === layer && k === "carry";
    if (/^(d_)?W_/.test(name)) return (k, _, l) => k === name.replace("d_", "") && (l === layer || k === "W_hy");
    if (name === "o") return at("W_hy");
    if (name === "c") return at("in", "carry");
    if (name === "h") return at(...{ rnn: ["in"], gru: ["in", "carry"], lstm: ["out"] }[this.net.cell]);
    if (name === "q") return at("W_hh");
    if (name.startsWith("d_a") || name === "d_q") return at("in");
    return ["a", "n", "r", "z", "i", "f", "g", "o_gate"].includes(name) ? at("W_xh", "W_hh") : () => false;
  }
}
