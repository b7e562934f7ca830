// The network. A product of two float32 numbers is exact in a double, and Float32Array rounds each sum that is stored in it:
// so the results equal those of the fused multiply-adds of Elman's compiled code, bit for bit.
const f4 = Math.fround;
const TERMS = [0.0013933641, 0.00836914849, 0.041666465, 0.166665053, 0.5, 1].map(f4);

function tanh(x) { // (e^2|x| - 1) / (e^2|x| + 1), by the polynomial of kernels/elementwise.py
  const size = f4(2 * Math.min(Math.abs(x), f4(9.02)));
  const n = f4(size * f4(1.4426950408889634) + 12582912) - 12582912;
  const r = f4(f4(size - n * 0.693359375) - n * f4(-2.1219444e-4));
  const scale = 1 << n, p = TERMS.reduce((p, c) => f4(p * r + c));
  const e = f4(scale * f4(p * r) + f4(scale - 1)), t = f4(e / f4(e + 2));
  return x < 0 ? -t : t;
}

const ACTIVATIONS = {
  tanh,
  relu: a => a < 0 ? 0 : a,
  sigmoid: a => tanh(f4(a / 2)) / 2 + 0.5,
  identity: a => a,
};

const sigmoid = a => f4(ACTIVATIONS.sigmoid(a));

const CELLS = { // one step, which replaces h and, in an LSTM, c
  rnn(h, c, a, q, b_hn, f) {
    for (let j = 0; j < h.length; j++) h[j] = f(a[j]);
  },
  gru(h, c, a, q, b_hn) {
    for (let j = 0, H = h.length; j < H; j++) {
      const r = sigmoid(f4(a[j] + q[j])), z = sigmoid(f4(a[H + j] + q[H + j]));
      const n = tanh(f4(a[2 * H + j] + f4(r * f4(q[2 * H + j] + b_hn[j]))));
      h[j] = f4(f4(1 - z) * n) + f4(z * h[j]);
    }
  },
  lstm(h, c, a) {
    for (let j = 0, H = h.length; j < H; j++) {
      const i = sigmoid(a[j]), f = sigmoid(a[H + j]), g = tanh(a[2 * H + j]), o = sigmoid(a[3 * H + j]);
      c[j] = f4(f * c[j]) + f4(i * g);
      h[j] = o * tanh(c[j]);
    }
  },
};

function half(bits) { // a float16
  const sign = bits & 0x8000 ? -1 : 1, exponent = bits >> 10 & 31, rest = bits & 1023;
  return sign * (exponent ? (1 + rest / 1024) * 2 ** (exponent - 15) : rest * 2 ** -24);
}

function addProduct(x, W, out) { // out += x @ W
  const N = out.length;
  for (let k = 0, at = 0; k < x.length; k++, at += N) {
    const x_k = x[k];
    for (let j = 0; j < N; j++) out[j] += x_k * W[at + j];
  }
}

function weights(facts, bytes) { // arrays by their names
  let at = 0;
  const take = (Kind, n) => new Kind(bytes.buffer.slice(at, at += n * Kind.BYTES_PER_ELEMENT));
  const read = shape => {
    const columns = shape.at(-1), n = shape.reduce((a, b) => a * b);
    if (facts.precision === "float16") return Float32Array.from(take(Uint16Array, n), half);
    if (facts.precision === "float32" || shape.length === 1) return take(Float32Array, n);
    const scales = take(Float32Array, columns); // int8: one for each column
    return Float32Array.from(take(Int8Array, n), (q, i) => q * scales[i % columns]);
  };
  return Object.fromEntries(Object.entries(facts.arrays).map(([name, shape]) => [name, read(shape)]));
}

class Layer {
  constructor(facts, p, name) {
    for (const part of ["W_xh", "W_hh", "b_h", "b_hn", "h0", "c0"]) this[part] = p[`${name}.${part}`];
    this.cell = CELLS[facts.cell];
    this.f = ACTIVATIONS[facts.activation];
    this.a = new Float32Array(this.b_h.length);
    this.q = new Float32Array(this.b_h.length);
    this.hidden = this.W_hh.length / this.b_h.length;
  }
  start() { return [this.h0, this.c0].map(learned => learned?.slice() ?? new Float32Array(this.hidden)); } // h, and c of an LSTM
  step([h, c], x, fed, W_fh) { // x is a vector, or a token id, which selects a row of W_xh
    const { a } = this;
    // a[t] = x[t] @ W_xh + b_h
    a.set(this.b_h);
    if (typeof x === "number") for (let j = 0; j < a.length; j++) a[j] += this.W_xh[x * a.length + j];
    else addProduct(x, this.W_xh, a);
    if (fed) addProduct(fed, W_fh, a);
    // plus q[t] = h[t] @ W_hh, which is a separate array in a GRU, where a gate multiplies it
    const q = this.b_hn ? this.q.fill(0) : a;
    addProduct(h, this.W_hh, q);
    this.cell(h, c, a, q, this.b_hn, this.f);
    return h;
  }
}

function embedded(token, W, size) { // its embedding, or without one the token id itself, which selects a row of W_xh
  return W ? W.subarray(token * size, (token + 1) * size) : token;
}

class Network {
  constructor(facts, bytes) {
    this.p = weights(facts, bytes);
    this.facts = facts;
    this.layers = Array.from({ length: facts.layers }, (_, i) => new Layer(facts, this.p, `layers.${i}`));
    this.o = new Float32Array(this.p["head.b_y"].length);
    this.reset();
  }
  reset() { this.states = this.layers.map(layer => layer.start()); }
  step(token) {
    const x = embedded(token, this.p["embedding.W"], this.facts.embedding);
    const h = this.layers.reduce((x, layer, i) => layer.step(this.states[i], x), x);
    // o[t] = h[t+1] @ W_hy + b_y
    this.o.set(this.p["head.b_y"]);
    addProduct(h, this.p["head.W_hy"], this.o);
  }
}

// y_hat = softmax(o), not yet divided by its sum
function likelihoods(o, sharpness) {
  const top = o.reduce((a, b) => Math.max(a, b));
  return Float64Array.from(o, o_j => Math.exp((o_j - top) * sharpness));
}

const sum = numbers => numbers.reduce((a, b) => a + b, 0);

// samples a token: the one whose interval of the cumulative probability contains u; at temperature 0 the most probable
function choose(o, u, temperature, top_p) {
  if (temperature === 0) return o.indexOf(o.reduce((a, b) => Math.max(a, b)));
  const y_hat = likelihoods(o, 1 / temperature);
  if (top_p < 1) {
    const order = [...o.keys()].sort((i, j) => o[j] - o[i]), goal = top_p * (1 - 1e-12) * sum(y_hat);
    let reached = 0, keep = 0;
    while (keep < order.length && (keep === 0 || reached < goal)) reached += y_hat[order[keep++]];
    for (const j of order.slice(keep)) y_hat[j] = 0;
  }
  const goal = u * sum(y_hat);
  let reached = 0, last = 0;
  for (let j = 0; j < y_hat.length && reached <= goal; j++)
    if (y_hat[j] > 0) { last = j; reached += y_hat[j]; }
  return last;
}

// -log y_hat[token] in nats, at temperature 1
function surprise(o, token) {
  const y_hat = likelihoods(o, 1);
  return Math.log(sum(y_hat) / y_hat[token]);
}

class Unknown extends Error {
  constructor(tokens) { super(); this.tokens = [...new Set(tokens)]; }
}

class Vocabulary {
  constructor({ tokens, vocabulary, merges, end }) {
    this.kind = tokens;
    this.tokens = vocabulary;
    this.ids = new Map(vocabulary?.map((token, id) => [token, id]));
    this.pieces = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)); // by token
    this.ranks = new Map(merges?.map((pair, rank) => [pair.join(), rank]));
    for (const [left, right] of merges ?? []) this.pieces.push(Uint8Array.of(...this.pieces[left], ...this.pieces[right]));
    this.end = end;
    this.size = vocabulary?.length ?? this.pieces.length + (end != null);
  }
  subwords(word) { // merges the pair that was learned first
    let ids = [...new TextEncoder().encode(word)];
    for (;;) {
      const ranks = ids.slice(1).map((id, i) => this.ranks.get(`${ids[i]},${id}`) ?? Infinity);
      const first = Math.min(...ranks);
      if (first === Infinity) return ids;
      const joined = [];
      for (let i = 0; i < ids.length; i++) joined.push(ranks[i] === first ? (i++, 256 + first) : ids[i]);
      ids = joined;
    }
  }
  words(text) { // Python's \w and \s, spelled out
    const word = / ?[\p{L}\p{N}_]{1,64}| ?[^\p{L}\p{N}_\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|./gsu;
    return text.match(word) ?? [];
  }
  encode(text) {
    if (this.kind === "byte") return [...new TextEncoder().encode(text)];
    const found = this.kind === "word" || this.kind === "bpe" ? this.words(text) : [...text];
    if (this.kind === "bpe") return found.flatMap(piece => this.subwords(piece));
    const unknown = found.filter(token => !this.ids.has(token));
    if (unknown.length) throw new Unknown(unknown);
    return found.map(token => this.ids.get(token));
  }
  decoder() { // ids to text, one at a time; an incomplete character is held back
    const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
    if (!this.tokens) return id => utf8.decode(this.pieces[id], { stream: true });
    return id => this.tokens[id];
  }
}

// generates pieces of text with their surprise; the prompt is not included
function* write(network, vocabulary, { prompt, seed, temperature, top_p }) {
  const random = new Random(seed), decode = vocabulary.decoder();
  const banned = vocabulary.kind === "word" && vocabulary.size > 1 ? 1 : 0; // <unk>, id 0, is never generated
  const line = vocabulary.tokens === null ? 10 : vocabulary.ids.get("\n");
  let ids = vocabulary.encode(prompt);
  if (vocabulary.end != null) ids.unshift(vocabulary.end);
  network.reset();
  if (!ids.length && line === undefined) { // the first token is drawn uniformly
    ids = [banned + random.below(vocabulary.size - banned)];
    yield [decode(ids[0]), Math.log(vocabulary.size - banned)];
  }
  for (const id of ids.length ? ids : [line]) network.step(id);
  for (;;) {
    if (banned) network.o[0] = -Infinity;
    const token = choose(network.o, random.uniform(), temperature, top_p);
    if (token === vocabulary.end) return;
    yield [decode(token), surprise(network.o, token)];
    network.step(token);
  }
}
