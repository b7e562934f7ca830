// Where a translator looks: how much each source token counts before each token that it writes.

import { post } from "./api.js";
import { make, percent, visible } from "./dom.js";

/** An element with the attention map of one input; show(target) draws that of a target. */
export function attentionView(run, input) {
  const place = make("div", { class: "looked" }), long = (tokens) => tokens.some((token) => [...token].length > 2);
  let asked = 0;

  function draw({ source, target, alpha }) {
    const read = source.map((token) => visible(token.trim() || token)), said = target.map((token) => visible(token.trim() || token));
    const head = make("tr", {}, make("td", {}), read.map((token) => make("th", { scope: "col" }, make("span", {}, token))));
    const rows = said.map((token, i) => make("tr", {}, make("th", { scope: "row" }, token), read.map((from, j) => {
      const cell = make("td", { "data-tip": `${token} ← ${from}: ${percent(alpha[i][j])}` });
      cell.style.setProperty("--s", (alpha[i][j] ?? 0).toFixed(3));
      return cell;
    })));
    place.replaceChildren(
      make("p", { class: "hint" }, "Where the network looks: a row for each token that it writes, a column for each token that it reads. The stronger the color, the more it counts."),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attention map" },
        make("table", { class: long(read) ? "words" : "" }, make("thead", {}, head), make("tbody", {}, rows))));
  }

  async function show(target) {
    const mine = asked += 1;
    try {
      const found = await post("/v1/elman/look/attention", { model: run.name, input, target });
      if (mine === asked) draw(found);
    } catch (error) {
      if (mine === asked) place.replaceChildren(make("p", { class: "readout" }, error.message));
    }
  }

  return Object.assign(place, { show });
}
