// A streamed completion: tokens with their log-probabilities, alternatives and the activation of a unit.

import { stream } from "./api.js";

export const TOP = 8; // alternatives

/** The number of tokens of a text. */
const COUNTS = {
  char: (text) => [...text].length,
  byte: (text) => new TextEncoder().encode(text).length,
  word: (text) => (text.match(/ ?[\p{L}\p{M}\p{N}_]{1,64}| ?[^\p{L}\p{M}\p{N}_\s]|\s/gu) ?? []).length,
};

/** A function from the name of a token to its text; a character of several byte tokens comes with its last one. */
export function tokenTexts(kind) {
  if (kind !== "byte" && kind !== "bpe") return (name) => name;
  const decoder = new TextDecoder(), encoder = new TextEncoder();
  return (name) => {
    const bytes = name.startsWith("bytes:\\x") ? name.match(/[0-9a-f]{2}(?=\\|$)/g).map((hex) => parseInt(hex, 16)) : encoder.encode(name);
    return decoder.decode(new Uint8Array(bytes), { stream: true });
  };
}

/** Tokens, {name, piece, logprob, top, activation, given}, a few at a time. */
export async function* streamTokens(run, { prompt, unit, ...options }, signal) {
  const kind = run.config.tokens;
  const textOf = tokenTexts(kind);
  const value = {
    model: run.name, prompt, ...options, echo: true, logprobs: TOP, stream: true,
    ...(unit ?? {}), ...(kind === "word" ? { unknown: "replace" } : {}),
  };
  let left = kind === "bpe" ? prompt.length : COUNTS[kind](prompt); // what is left of the prompt: tokens, or characters for subwords
  for await (const { data } of stream("/v1/completions", { value, signal })) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    const found = chunk.choices[0]?.logprobs;
    if (!found) continue;
    yield found.tokens.map((name, i) => {
      const given = left > 0, piece = textOf(name);
      left -= kind === "bpe" ? piece.length : 1;
      return { name, piece, given, logprob: found.token_logprobs[i], top: found.top_logprobs?.[i] ?? null, activation: found.activations?.[i] ?? null };
    });
  }
}
