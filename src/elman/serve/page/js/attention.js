// The attention weights of a translator: how much each source token counts for each output token.

import { post } from "./api.js";
import { make, percent, visible } from "./dom.js";

/** An element with the attention weights of one input; show(target) draws those of a target. */
export function attentionView(run, input) {
  const place = make("div", { class: "attention" }), long = (tokens) => tokens.some((token) => [...token].length > 2);
  let requests = 0;

  function draw({ source, target, alpha }) {
    const read = source.map((token) => visible(token.trim() || token)), written = target.map((token) => visible(token.trim() || token));
    const head = make("tr", {}, make("td", {}), read.map((token) => make("th", { scope: "col" }, make("span", {}, token))));
    const rows = written.map((token, i) => make("tr", {}, make("th", { scope: "row" }, token), read.map((from, j) => {
      const cell = make("td", { "data-tip": `${token} ← ${from}: ${percent(alpha[i][j])}` });
      cell.style.setProperty("--s", (alpha[i][j] ?? 0).toFixed(3));
      return cell;
    })));
    place.replaceChildren(
      make("p", { class: "hint" }, "Attention weights: a row for each output token, a column for each input token. The stronger the color, the larger the weight."),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attention weights" },
        make("table", { class: long(read) ? "words" : "" }, make("thead", {}, head), make("tbody", {}, rows))));
  }

  async function show(target) {
    const number = requests += 1;
    try {
      const found = await post("/v1/elman/look/attention", { model: run.name, input, target });
      if (number === requests) draw(found);
    } catch (error) {
      if (number === requests) place.replaceChildren(make("p", { class: "readout" }, error.message));
    }
  }

  return Object.assign(place, { show });
}
