// The values of a step as tables, and its formula.

import { make, number, visible } from "./dom.js";

const SYMBOL = /(?<![A-Za-z_])(?:d_)?(?:W_[a-z]{2}|b_[a-z]{1,2}|a_[a-z]|y_hat|o_gate|[axhoyLcifgrzqn])(?:\[[^\]]*\])?(?:\.T)?(?![a-z])/g;

/** Sets the color of a number: its sign, and its size relative to the largest. */
export function tint(node, value, most) {
  node.style.setProperty("--s", value === null ? 0 : Math.min(1, Math.abs(value) / (most || 1)).toFixed(3));
  node.dataset.sign = value >= 0 ? "plus" : "minus";
}

export const largest = (values) => values.flat(2).reduce((most, v) => Math.max(most, Math.abs(v ?? 0)), 0);

/** The label of an entry of an axis; white space is made visible. */
export const named = (axis, label) => ("XY".includes(axis) ? visible(label) : label);

export function table(value, axes) {
  const letters = [...value.axes];
  const rows = letters.length > 1 ? value.values : [letters.length ? value.values : [value.values]];
  const across = axes[letters.at(-1)], down = letters.length > 1 ? axes[letters[0]] : null, most = largest(rows);
  const cut = (axis) => axis && axis.indices.length < axis.size;
  const body = make("table");
  if (across?.size > 1) body.append(make("tr", {}, make("th"), across.labels.map((label) => make("th", { scope: "col" }, named(letters.at(-1), label)))));
  rows.forEach((row, i) => {
    const cells = row.map((v) => {
      const cell = make("td", { "data-tip": v === null ? "not finite" : String(v) }, number(v));
      tint(cell, v, most);
      return cell;
    });
    body.append(make("tr", {}, make("th", { scope: "row" }, down?.size > 1 ? named(letters[0], down.labels[i]) : ""), cells, cut(across) ? make("td", { class: "more" }, "…") : null));
  });
  if (cut(down)) body.append(make("tr", {}, make("th"), make("td", { class: "more" }, "⋮")));
  const shape = value.shape.length ? `(${value.shape.join(", ")})` : "a number";
  return make("figure", { class: "value", "data-name": value.name }, make("figcaption", {}, make("b", {}, value.name), ` ${shape}`), make("div", { class: "scroll" }, body));
}

/** A formula whose symbols show their values on hover; the first is the result. */
export function formula(words, numbers) {
  const [left] = words.split(/ [=←]/), box = make("p", { class: "formula" });
  const add = (part, main) => {
    let end = 0;
    for (const found of part.matchAll(SYMBOL)) {
      box.append(part.slice(end, found.index), make(main ? "b" : "span", { class: "symbol", "data-symbol": found[0], "data-tip": numbers(found[0]) }, found[0]));
      end = found.index + found[0].length;
    }
    box.append(part.slice(end));
  };
  add(left, true);
  add(words.slice(left.length), false);
  return box;
}
