// The vocabulary of a translator: id 0 is the unknown token, id 1 the start and end token, then the others follow.
class Symbols extends Vocabulary {
  encode(text) {
    if (this.kind === "bpe") return this.words(` ${text}`).flatMap(word => this.subwords(word)).map(id => id + 2);
    if (this.kind === "byte") return [...new TextEncoder().encode(text)].map(id => id + 2);
    const id = token => this.ids.get(token);
    if (this.kind === "word") {
      const stripped = trimmed(text);
      return (stripped ? this.words(` ${stripped}`) : []).map(token => (id(token) ?? id(token.toLowerCase()) ?? -2) + 2);
    }
    return (this.kind === "list" ? trimmed(text).split(/\s+/).filter(Boolean) : [...text]).map(token => (id(token) ?? -2) + 2);
  }
  show(id) { // its name in the table of attention weights
    if (id < 2) return id ? "(end)" : "(unknown)";
    return this.tokens ? this.tokens[id - 2] : new TextDecoder().decode(this.pieces[id - 2]);
  }
  decode(ids) {
    const own = ids.map(id => id - 2);
    if (this.tokens) {
      const text = own.map(id => this.tokens[id]).join(this.kind === "list" ? " " : "");
      return this.kind === "word" ? trimmed(text) : text;
    }
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(own.flatMap(id => [...this.pieces[id]])));
    return this.kind === "bpe" ? text.replace(/^ /, "") : text;
  }
}

// Python's str.strip
const trimmed = text => text.replace(/^[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+|[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$/g, "");

const joined = vectors => Float32Array.from(vectors.flatMap(vector => [...vector]));

function product(x, W, columns) {
  const out = new Float32Array(columns);
  addProduct(x, W, out);
  return out;
}

class Translator {
  constructor(facts, bytes) {
    const p = this.p = weights(facts, bytes), { layers, directions, parts } = facts;
    const layer = name => new Layer(facts, p, name), ends = ["", ".reverse"].slice(0, directions);
    this.facts = facts;
    this.encoder = Array.from({ length: layers }, (_, i) => ends.map(end => layer(`encoder.layers.${i}${end}`)));
    this.decoder = Array.from({ length: layers }, (_, i) => layer(`decoder.layers.${i}`));
    this.parts = parts; // 2 in an LSTM: h and c
    this.hidden = this.decoder[0].hidden;
  }

  embedded(side, token) { return embedded(token, this.p[`${side}.embedding.W`], this.facts.embedding); }

  read(source) { // the state of the decoder before its first step, and values and keys for attention
    let x = source.map(token => this.embedded("encoder", token));
    const final = [];
    for (const directions of this.encoder) {
      const outputs = directions.map((layer, side) => {
        const state = layer.start(), steps = [...x.keys()], found = [];
        for (const t of side ? steps.reverse() : steps) found[t] = layer.step(state, x[t]).slice();
        final.push(state.slice(0, this.parts));
        return found;
      });
      x = source.map((_, t) => joined(outputs.map(side => side[t])));
    }
    const { p, hidden: H } = this;
    let states = final;
    if (p["bridge.W_ch"]) { // s0 = c @ W_ch + b_h
      const s = p["bridge.b_h"].slice();
      addProduct(joined(final.flat()), p["bridge.W_ch"], s);
      states = this.decoder.map((_, i) => Array.from({ length: this.parts }, (_, j) => s.slice((i * this.parts + j) * H, (i * this.parts + j + 1) * H)));
    }
    const W_k = p["attention.W_k"], keys = W_k ? x.map(value => product(value, W_k, p["attention.w_a"].length)) : x;
    return { states, fed: new Float32Array(H), values: x, keys };
  }

  step(token, { states, fed, values, keys }) { // logits, attention weights and the next state
    const { p } = this, W_fh = p["attention.W_fh"], next = states.map(parts => parts.map(part => part.slice()));
    let h = this.embedded("decoder", token);
    this.decoder.forEach((layer, i) => { h = layer.step(next[i], h, i === 0 && W_fh ? fed : null, W_fh); });
    let alpha = null, out = h;
    if (W_fh) ({ alpha, out } = this.attend(h, values, keys));
    const o = p["head.b_y"].slice();
    addProduct(out, p["head.W_hy"], o);
    return { o, alpha, state: { states: next, fed: out, values, keys } };
  }

  attend(h, values, keys) {
    const { p } = this, w_a = p["attention.w_a"], K = p["attention.W_q"].length / h.length;
    // q = h @ W_q
    const q = product(h, p["attention.W_q"], K);
    // score[j] = tanh(q + keys[j]) @ w_a, or q · keys[j] / √K
    const score = keys.map(key => key.reduce((total, value, k) => total + (w_a ? tanh(f4(q[k] + value)) * w_a[k] : q[k] * value / Math.sqrt(K)), 0));
    // alpha[j] = exp(score[j]) / Σ exp(score)
    const e = likelihoods(score, 1), total = sum(e), alpha = Array.from(e, e_j => e_j / total);
    // context = Σ alpha[j] · values[j]
    const context = new Float32Array(p["attention.W_c"].length / h.length - h.length);
    values.forEach((value, j) => value.forEach((v, k) => { context[k] += alpha[j] * v; }));
    // h_tilde = tanh([h, context] @ W_c)
    return { alpha, out: product(joined([h, context]), p["attention.W_c"], h.length).map(tanh) };
  }

  // beam search: the best sequences first, by the mean log probability of a token
  search(source, width) {
    let beams = [{ total: 0, tokens: [], alphas: [], state: this.read(source), last: 1 }];
    const ended = [];
    for (let length = 1; length <= this.facts.limit; length++) {
      const found = [];
      for (const beam of beams) {
        const { o, alpha, state } = this.step(beam.last, beam.state), alphas = [...beam.alphas, alpha];
        o[0] = -Infinity; // the unknown token is never generated
        const top = o.reduce((a, b) => Math.max(a, b)), norm = top + Math.log(sum(likelihoods(o, 1)));
        ended.push({ score: (beam.total + o[1] - norm) / length, tokens: beam.tokens, alphas });
        const best = [...o.keys()].filter(id => id > 1).sort((i, j) => o[j] - o[i] || i - j).slice(0, width);
        for (const id of best) found.push({ total: beam.total + o[id] - norm, tokens: [...beam.tokens, id], alphas, state, last: id });
      }
      beams = found.sort((a, b) => b.total - a.total).slice(0, width);
      const best = beams[0].total / length; // of the unfinished sequences
      if (ended.filter(one => one.score >= best).length >= width) break;
    }
    return ended.sort((a, b) => b.score - a.score).slice(0, width);
  }

  greedy(source) { // the most probable token at each step
    const tokens = [], alphas = [];
    for (let state = this.read(source), last = 1, total = 0; ;) {
      const step = this.step(last, state);
      ({ state } = step);
      step.o[0] = -Infinity;
      last = step.o.indexOf(step.o.reduce((a, b) => Math.max(a, b)));
      total -= surprise(step.o, last);
      alphas.push(step.alpha);
      if (last !== 1) tokens.push(last);
      if (last === 1 || tokens.length >= this.facts.limit) return [{ score: total / (tokens.length + (last === 1)), tokens, alphas }];
    }
  }

  translate(source, width) { return width > 1 ? this.search(source, width) : this.greedy(source); }
}
