"use strict";
// The forward and backward pass of a small network in plain arrays, as in elman.maths, to recompute every number after
// an edit of a weight. Quantities are named as in the formulas; "h[t+1]" is a list of rows, one for each t.

/** row @ W. Zeros are skipped: a one-hot row picks a row of W. */
function times(row, W) {
  const sums = zeros(W[0].length);
  row.forEach((value, i) => { if (value !== 0) for (let j = 0, of = W[i]; j < sums.length; j += 1) sums[j] += value * of[j]; });
  return sums;
}
/** row @ W.T. Zeros are skipped: the gradient of one unit has few other entries. */
function timesT(row, W) {
  const used = [...row.keys()].filter((j) => row[j] !== 0);
  return W.map((of) => { let sum = 0; for (const j of used) sum += of[j] * row[j]; return sum; });
}
const zip = (f, ...rows) => rows[0].map((_, i) => f(...rows.map((row) => row[i])));
const plus = (...rows) => zip((...values) => values.reduce((sum, value) => sum + value, 0), ...rows);
const zeros = (n) => Array(n).fill(0);
/** Σ_t rows[t].T @ others[t] */
function outer(rows, others) {
  const sums = rows[0].map(() => zeros(others[0].length));
  rows.forEach((row, t) => row.forEach((value, i) => { if (value !== 0) for (let j = 0, of = sums[i]; j < of.length; j += 1) of[j] += value * others[t][j]; }));
  return sums;
}
const summed = (rows) => plus(...rows);
const sigmoid = (a) => (1 + Math.tanh(a / 2)) / 2;
const nextStep = (rows) => [...rows.slice(1), zeros(rows[0].length)]; // the rows of the next step; zeros at the last one

const ACTIVATIONS = {
  tanh: { f: Math.tanh, slope: (h) => 1 - h * h, name: "(1 - h[t+1]²)" },
  relu: { f: (a) => Math.max(a, 0), slope: (h) => (h > 0 ? 1 : 0), name: "(h[t+1] > 0)" },
  sigmoid: { f: sigmoid, slope: (h) => h * (1 - h), name: "h[t+1] ⊙ (1 - h[t+1])" },
  identity: { f: (a) => a, slope: () => 1, name: "1" },
};

/** The block of each gate: {i: row, f: row, …}. */
function split(row, gates) {
  const H = row.length / gates.length;
  return Object.fromEntries(gates.map((gate, i) => [gate, row.slice(i * H, (i + 1) * H)]));
}

// Each cell has two functions. forward(p, x, r, h, c, activation) returns what the step keeps: x is x[t] @ W_xh + b_h, r
// is h[t] @ W_hh, h and c are the state before the step. backward(p, kept, d_h, d_c, activation) returns the gradients
// on both products, d_a_x and d_a_h, and on the state before the step, d_h and d_c, without the part through W_hh.
const CELLS = {
  rnn: {
    gates: ["a"],
    forward(p, x, r, h, c, { f }) {
      const a = plus(x, r);
      return { a, h: a.map(f), c };
    },
    backward(p, k, d_h, d_c, { slope }) {
      const d_a = zip((h, d) => slope(h) * d, k.h, d_h);
      return { d_a, d_a_x: d_a, d_a_h: d_a, d_h: zeros(d_h.length), d_c };
    },
  },
  gru: {
    gates: ["r", "z", "n"],
    forward(p, x, r_h, before) {
      const x_of = split(x, this.gates), h_of = split(r_h, this.gates);
      const r = plus(x_of.r, h_of.r).map(sigmoid), z = plus(x_of.z, h_of.z).map(sigmoid);
      const q = plus(h_of.n, p.b_hn), n = zip((a, g, b) => Math.tanh(a + g * b), x_of.n, r, q);
      return { r, z, q, n, before, h: zip((g, a, b) => (1 - g) * a + g * b, z, n, before) };
    },
    backward(p, { r, z, q, n, before }, d_h, d_c) {
      const d_a_n = zip((a, g, d) => (1 - a * a) * (1 - g) * d, n, z, d_h);
      const d_a_z = zip((g, b, a, d) => g * (1 - g) * (b - a) * d, z, before, n, d_h);
      const d_a_r = zip((g, b, d) => g * (1 - g) * b * d, r, q, d_a_n), d_q = zip((g, d) => g * d, r, d_a_n);
      return { d_a_n, d_a_z, d_a_r, d_q, d_a_x: [...d_a_r, ...d_a_z, ...d_a_n], d_a_h: [...d_a_r, ...d_a_z, ...d_q], d_h: zip((g, d) => g * d, z, d_h), d_c };
    },
  },
  lstm: {
    gates: ["i", "f", "g", "o"],
    forward(p, x, r, h, before) {
      const a = split(plus(x, r), this.gates), i = a.i.map(sigmoid), f = a.f.map(sigmoid), g = a.g.map(Math.tanh), o = a.o.map(sigmoid);
      const c = zip((forget, old, input, candidate) => forget * old + input * candidate, f, before, i, g), tanh_c = c.map(Math.tanh);
      return { i, f, g, o_gate: o, before, c, tanh_c, h: zip((gate, s) => gate * s, o, tanh_c) };
    },
    backward(p, { i, f, g, o_gate: o, before, tanh_c }, d_h, d_c_next) {
      const d_c = zip((next, gate, s, d) => next + gate * (1 - s * s) * d, d_c_next, o, tanh_c, d_h);
      const d_a_i = zip((gate, s, d) => gate * (1 - gate) * s * d, i, g, d_c), d_a_f = zip((gate, s, d) => gate * (1 - gate) * s * d, f, before, d_c);
      const d_a_g = zip((s, gate, d) => (1 - s * s) * gate * d, g, i, d_c), d_a_o = zip((gate, s, d) => gate * (1 - gate) * s * d, o, tanh_c, d_h);
      const d_a = [...d_a_i, ...d_a_f, ...d_a_g, ...d_a_o];
      return { d_c_after: d_c, d_a_i, d_a_f, d_a_g, d_a_o, d_a, d_a_x: d_a, d_a_h: d_a, d_h: zeros(d_h.length), d_c: zip((gate, d) => gate * d, f, d_c) };
    },
  },
};

/** The parameters of a layer by their short names. */
function part(P, prefix) {
  return Object.fromEntries(Object.entries(P).filter(([name]) => name.startsWith(prefix + ".")).map(([name, value]) => [name.slice(prefix.length + 1), value]));
}

/** All quantities of a layer's forward pass over rows. */
function layerForward(net, p, rows) {
  const cell = CELLS[net.cell], f = ACTIVATIONS[net.activation], H = net.hidden, q = { "x[t]": rows, W_xh: p.W_xh, W_hh: p.W_hh, b_h: p.b_h };
  let h = zeros(H), c = zeros(H);
  const kept = [], from_x = rows.map((row) => times(row, p.W_xh)), from_h = [], states = [h], cells = [c];
  for (const product of from_x) {
    const r = times(h, p.W_hh), k = cell.forward(p, plus(product, p.b_h), r, h, c, f);
    from_h.push(r);
    kept.push(k);
    h = k.h;
    c = k.c ?? c;
    states.push(h);
    cells.push(c);
  }
  Object.assign(q, { kept, "x[t] @ W_xh": from_x, "h[t] @ W_hh": from_h, "h[t]": states.slice(0, -1), "h[t+1]": states.slice(1), "c[t]": cells.slice(0, -1), "c[t+1]": cells.slice(1) });
  if (p.b_hn) q.b_hn = p.b_hn;
  for (const name of ["a", "r", "z", "q", "n", "i", "f", "g", "o_gate"]) if (name in kept[0]) q[`${name}[t]`] = kept.map((k) => k[name]);
  if (net.cell === "rnn") q[f.name] = states.slice(1).map((row) => row.map(f.slope));
  if (net.cell === "lstm") {
    q["tanh(c[t+1])"] = kept.map((k) => k.tanh_c);
    q["(1 - tanh(c[t+1])²)"] = kept.map((k) => k.tanh_c.map((s) => 1 - s * s));
  }
  if (cell.gates.length > 1) {
    const sums = from_x.map((row, t) => plus(row, p.b_h, from_h[t])), b = split(p.b_h, cell.gates);
    for (const gate of cell.gates) {
      const of = (list) => list.map((row) => split(row, cell.gates)[gate]);
      Object.assign(q, { [`x[t] @ W_x${gate}`]: of(from_x), [`h[t] @ W_h${gate}`]: of(from_h), [`b_${gate}`]: b[gate], [`a_${gate}[t]`]: of(sums) });
    }
  }
  return q;
}

/** The quantities of a layer's backward pass over the steps first … end - 1; at all other steps they are 0.
 * direct: d_x of the layer above, or d_o @ W_hy.T. */
function layerBackward(net, p, q, direct, first, end) {
  const cell = CELLS[net.cell], f = ACTIVATIONS[net.activation], T = direct.length, found = Array(T), d_states = Array(T), through = Array(T);
  let d_h = zeros(net.hidden), d_c = zeros(net.hidden);
  for (let t = end - 1; t >= first; t -= 1) {
    d_states[t] = plus(direct[t], d_h);
    found[t] = cell.backward(p, q.kept[t], d_states[t], d_c, f);
    through[t] = timesT(found[t].d_a_h, p.W_hh);
    d_h = plus(found[t].d_h, through[t]);
    d_c = found[t].d_c;
  }
  const padded = (rows) => Array.from({ length: T }, (_, t) => rows[t] ?? zeros(rows[first].length));
  const all = (name) => padded(found.map((step) => step[name])), wide = net.cell === "gru" ? "d_a_h" : "d_a";
  const later = (rows) => nextStep(rows).map((row, t) => (t >= first && t < end ? row : zeros(row.length)));
  const start = (d) => (first ? zeros(d.length) : d); // what reaches the initial state
  const d = { "d_o[t] @ W_hy.T": direct, "d_h[t+1]": padded(d_states), [`${wide}[t+1] @ W_hh.T`]: later(padded(through)), "d_h[0]": start(d_h) };
  for (const name of ["d_a", "d_a_x", "d_a_h", "d_a_r", "d_a_z", "d_a_n", "d_q", "d_a_i", "d_a_f", "d_a_g", "d_a_o"]) if (name in found[first]) d[`${name}[t]`] = all(name);
  if (net.cell === "lstm") Object.assign(d, { "d_c[t+1]": all("d_c_after"), "f[t+1] ⊙ d_c[t+2]": later(all("d_c")), "d_c[0]": start(d_c) });
  if (net.cell === "gru") d["z[t+1] ⊙ d_h[t+2]"] = later(all("d_h"));
  return d;
}

/** The quantities of the backward pass of each layer. It begins with the losses of all steps if first … end - 1 are all
 * there are, otherwise with that of the last one alone. */
function backwardPass(net, parts, layers, d_outputs, first, end) {
  const whole = end - first === d_outputs.length, of_layers = Array(net.layers);
  let direct = d_outputs.map((row, t) => (whole || t === end - 1 ? row : zeros(row.length)));
  for (let i = net.layers - 1; i >= 0; i -= 1) {
    of_layers[i] = layerBackward(net, parts[i], layers[i], direct, first, end);
    if (i) direct = of_layers[i]["d_a_x[t]"].map((row) => timesT(row, parts[i].W_xh));
  }
  return of_layers;
}

/** The sum of arrays of the same shape. */
const total = (arrays) => (arrays.length === 1 ? arrays[0] : Array.isArray(arrays[0][0]) ? zip((...rows) => plus(...rows), ...arrays) : plus(...arrays));

/** The forward pass of all layers: {parts, layers, rows}, the parameters and quantities by layer, and the last states. */
function forwardPass(net, P, x) {
  let rows = x.map((id) => oneHot(id, P["layers.0.W_xh"].length));
  const layers = [], parts = [];
  for (let i = 0; i < net.layers; i += 1) {
    parts.push(part(P, `layers.${i}`));
    layers.push(layerForward(net, parts[i], rows));
    rows = layers[i]["h[t+1]"];
  }
  return { parts, layers, rows };
}

const oneHot = (id, size) => Array.from({ length: size }, (_, i) => Number(i === id));

/** Both passes: {output, layers, losses}, each quantity by name. net: cell, activation, layers, hidden; P: parameters by
 * name. With fewer bptt_steps than steps each loss is backpropagated alone, and losses has the quantities of each. */
function passes(net, P, ids, bptt_steps = null) {
  const [x, y] = ids, T = x.length, Y = P["head.b_y"].length, W_hy = P["head.W_hy"], b_y = P["head.b_y"], { parts, layers, rows } = forwardPass(net, P, x);
  const o = rows.map((row) => plus(times(row, W_hy), b_y)), top = o.map((row) => Math.max(...row));
  const totals = o.map((row, t) => row.reduce((sum, value) => sum + Math.exp(value - top[t]), 0));
  const y_hat = o.map((row, t) => row.map((value) => Math.exp(value - top[t]) / totals[t])), targets = y.map((id) => oneHot(id, Y));
  const losses = o.map((row, t) => Math.log(totals[t]) + top[t] - row[y[t]]), L = losses.reduce((sum, loss) => sum + loss, 0) / T;
  const d_o = y_hat.map((row, t) => zip((predicted, target) => (predicted - target) / T, row, targets[t]));
  const output = { W_hy, b_y, "o[t]": o, "y_hat[t]": y_hat, "y[t]": targets, L, "-log y_hat[t][y[t]]": losses, "d_o[t]": d_o, d_W_hy: outer(rows, d_o), d_b_y: summed(d_o) };
  const windows = bptt_steps && bptt_steps < T ? d_o.map((_, t) => [Math.max(0, t + 1 - bptt_steps), t + 1]) : [[0, T]];
  const d_outputs = d_o.map((row) => timesT(row, W_hy)), alone = windows.map(([first, end]) => backwardPass(net, parts, layers, d_outputs, first, end));
  layers.forEach((q, i) => {
    for (const key of Object.keys(alone[0][i])) q[key] = total(alone.map((of_layers) => of_layers[i][key]));
    const d_a_x = q["d_a_x[t]"], d_a_h = q["d_a_h[t]"];
    Object.assign(q, { d_W_hh: outer(q["h[t]"], d_a_h), d_W_xh: outer(q["x[t]"], d_a_x), d_b_h: summed(d_a_x) });
    if (net.cell === "gru") q.d_b_hn = summed(q["d_q[t]"]);
  });
  return { output, layers, losses: alone };
}

/** The gradient of every parameter, by name. */
function gradients(net, found) {
  const d = { "head.W_hy": found.output.d_W_hy, "head.b_y": found.output.d_b_y };
  found.layers.forEach((q, i) => { for (const name of ["W_xh", "W_hh", "b_h", "b_hn"]) if (q[`d_${name}`]) d[`layers.${i}.${name}`] = q[`d_${name}`]; });
  return d;
}

/** Clipping and a step of gradient descent: adds their quantities to those of the passes; returns the new parameters. */
function update(net, P, found, rate, limit) {
  const d = gradients(net, found), less = (p, g) => (Array.isArray(p) ? zip(less, p, g) : p - rate * scale * g);
  const squares = Object.fromEntries(Object.entries(d).map(([name, g]) => [`Σ d_${name}²`, g.flat().reduce((sum, value) => sum + value * value, 0)]));
  const norm = Math.sqrt(Object.values(squares).reduce((sum, value) => sum + value, 0)), scale = norm > limit ? limit / norm : 1;
  const after = Object.fromEntries(Object.entries(P).map(([name, p]) => [name, less(p, d[name])]));
  Object.assign(found.output, squares, { norm, scale, limit, η: rate });
  for (const [name, p] of Object.entries(after)) {
    const [, layer, short] = name.match(/^(?:layers\.(\d+)|head)\.(\w+)$/);
    (layer === undefined ? found.output : found.layers[layer])[`${short} after the step`] = p;
  }
  return after;
}

/** ‖∂h[k]/∂h[0]‖ for k = 0 … steps, in an LSTM of h and c together: the spectral norm of the product of step Jacobians of the last layer. */
function jacobianNorms(net, P, ids, steps) {
  const again = Array.from({ length: steps }, (_, t) => ids[0][t % ids[0].length]);
  const { layers, parts } = forwardPass(net, P, again), q = layers[net.layers - 1], p = parts[net.layers - 1];
  const cell = CELLS[net.cell], f = ACTIVATIONS[net.activation], H = net.hidden, size = net.cell === "lstm" ? 2 * H : H, norms = [1];
  let product = Array.from({ length: size }, (_, i) => Array.from({ length: size }, (__, j) => Number(i === j)));
  for (const kept of q.kept) {
    const columns = product.map((_, j) => { // the derivatives of entry j after the step with respect to every entry before it
      const unit = Array.from({ length: 2 * H }, (__, i) => Number(i === j));
      const step = cell.backward(p, kept, unit.slice(0, H), unit.slice(H), f);
      const d_h = plus(step.d_h, timesT(step.d_a_h, p.W_hh));
      return size > H ? [...d_h, ...step.d_c] : d_h;
    });
    product = product.map((row) => timesT(row, columns));
    norms.push(norm(product));
  }
  return norms;
}

/** The largest singular value, by power iteration. */
function norm(M) {
  const most = Math.max(...M.flat().map(Math.abs));
  if (!(most > 0) || !Number.isFinite(most)) return most;
  const scaled = M.map((row) => row.map((value) => value / most));
  let v = scaled[0].map((_, i) => 1 + 0.1 * i), size = 0;
  for (let turn = 0; turn < 60; turn += 1) {
    const w = times(timesT(v, scaled), scaled), length = Math.hypot(...w);
    if (!length) break;
    size = Math.sqrt(length / Math.hypot(...v));
    v = w.map((value) => value / length);
  }
  return most * size;
}
