// The contributions of all tokens to a prediction, by leaving each out and by gradient times input.

import { post } from "./api.js";
import { make, number, visible } from "./dom.js";

const METHODS = { left_out: "Leave one out", gradient: "Gradient × input" };
const HINTS = {
  left_out: (score) => `The shade shows how much ${score} without the token.`,
  gradient: (score) => `The shade is a first-order estimate of how much ${score} without the token.`,
};
let method = "left_out", serial = 0;

/** An element that shows the contributions to the prediction for one input; `tag` chooses one tag of a tagger. */
export function attributionView(run, input) {
  const status = make("p", { class: "readout" }, "Computing the contributions of the tokens …");
  const place = make("div", { class: "decided" }, status), group = `method-${serial += 1}`;
  let found = null, tag = 0;

  function draw() {
    const row = found[method][tag], most = Math.max(...row.map(Math.abs), 1e-12);
    const tokens = found.tokens.map((token, i) => {
      const span = make("span", { "data-sign": row[i] >= 0 ? "plus" : "minus", "data-tip": `${visible(token)}: ${row[i] >= 0 ? "+" : ""}${number(row[i], 2)}`, class: /^\n+$/.test(token) ? "line" : "" }, token);
      span.style.setProperty("--s", (Math.abs(row[i]) / most).toFixed(3));
      if (found.targets.length > 1 && i === tag) span.classList.add("now");
      return span;
    });
    const gaps = found.tokens.some((token) => /^\s|\s$/.test(token)) || found.tokens.every((token) => [...token].length === 1) ? "" : " ";
    const choice = make("span", { class: "segments", role: "radiogroup", "aria-label": "Method" }, Object.entries(METHODS).map(([name, label]) =>
      make("label", {}, make("input", { type: "radio", name: group, value: name, checked: name === method, onchange: () => { method = name; draw(); } }), make("span", {}, label))));
    place.replaceChildren(
      make("p", { class: "deciding" }, "Contributions to ", make("b", {}, found.targets.length > 1 ? `${found.targets[tag]} at “${visible(found.tokens[tag])}”` : String(found.targets[0])), " ", choice),
      make("p", { class: "text mono" }, tokens.flatMap((span, i) => (i && gaps ? [gaps, span] : [span]))),
      make("p", { class: "hint" }, run.task === "regress" ? "Blue tokens raise the predicted value, orange ones lower it. " : "Blue tokens support the prediction, orange ones oppose it. ", HINTS[method](run.task === "regress" ? "the predicted value falls" : "the log-odds of the prediction fall"), " ",
        found.agreement === null ? "" : `The rank correlation of the two methods is ${number(found.agreement, 2)}.`));
  }

  post("/v1/elman/look/attribution", { model: run.name, input }).then((answer) => { found = answer; draw(); }, (error) => { status.textContent = error.message; });
  return Object.assign(place, { choose: (i) => { tag = i; if (found) draw(); } });
}
