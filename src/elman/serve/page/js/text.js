// A text with shaded tokens, which can be selected by pointer or arrow keys.

import { make, number, percent, visible } from "./dom.js";

const FULL_COLOR = 5; // nats of surprise

export class ShadedText {
  constructor(place, { choose, hover }) {
    Object.assign(this, { place, choose, hover, mode: "surprise" });
    this.clear();
    place.addEventListener("click", (event) => this.#chosen(this.#indexOf(event.target)));
    place.addEventListener("pointerover", (event) => hover(this.cells[this.#indexOf(event.target)] ?? null));
    place.addEventListener("pointerleave", () => hover(this.cells[this.now] ?? null));
    place.addEventListener("keydown", (event) => this.#key(event));
  }

  clear() {
    this.cells = [];
    this.now = -1;
    this.#open = null;
    this.place.replaceChildren();
  }

  #open = null; // a character whose last byte has not arrived

  add(tokens) {
    const nodes = [];
    for (const token of tokens) {
      const cell = this.#open ?? { surprise: 0, piece: "" };
      const surprise = token.logprob === null ? null : cell.surprise - token.logprob;
      Object.assign(cell, token, { surprise, piece: cell.piece + token.piece });
      this.#open = token.piece ? null : cell;
      if (this.#open) continue;
      cell.before = this.cells.length ? this.cells.at(-1) : null;
      cell.node = make("span", { class: token.given ? "given" : "" }, cell.piece);
      if (/^\n+$/.test(cell.piece)) cell.node.classList.add("line");
      this.cells.push(cell);
      this.#shade(cell);
      nodes.push(cell.node);
    }
    this.place.append(...nodes);
  }

  shade(mode) {
    this.mode = mode;
    this.cells.forEach((cell) => this.#shade(cell));
  }

  #shade(cell) {
    const value = this.mode === "unit" ? cell.activation : this.mode === "surprise" ? cell.surprise : null;
    const strength = value === null ? 0 : this.mode === "unit" ? Math.min(1, Math.abs(value)) : Math.min(1, value / FULL_COLOR) ** 1.25;
    cell.node.dataset.sign = this.mode === "unit" && value > 0 ? "plus" : "minus";
    cell.node.style.setProperty("--s", strength.toFixed(3));
  }

  /** The text before cell i. */
  before(i) {
    return this.cells.slice(0, i).map((cell) => cell.piece).join("");
  }

  #indexOf(node) {
    return node === this.place ? -1 : [...this.place.children].indexOf(node);
  }

  move(i) {
    this.cells[this.now]?.node.classList.remove("now");
    this.now = Math.max(0, Math.min(this.cells.length - 1, i));
    const cell = this.cells[this.now];
    cell?.node.classList.add("now");
    cell?.node.scrollIntoView({ block: "nearest" });
    this.hover(cell ?? null);
  }

  #chosen(i) {
    if (i < 0) return;
    this.move(i);
    this.choose(i);
  }

  #key(event) {
    const to = { ArrowRight: this.now + 1, ArrowLeft: this.now - 1, Home: 0, End: this.cells.length - 1 }[event.key];
    if (to !== undefined) this.move(to);
    else if (event.key === "Enter" && this.now >= 0) this.choose(this.now);
    else return;
    event.preventDefault();
  }
}

/** One line about a token. */
export function describe(cell, mode) {
  if (!cell) return "";
  const name = `“${visible(cell.piece)}”`;
  if (mode === "unit") return cell.activation === null ? name : `${name}: activation ${number(cell.activation)}`;
  if (cell.surprise === null) return `${name}: the first token, which nothing predicts`;
  return `${name}: probability ${percent(Math.exp(-cell.surprise))}, surprise ${number(cell.surprise, 2)} nats`;
}
