// The alternatives to a token; choosing one continues the text with it.

import { at, make, number, percent, visible } from "./dom.js";

export function openInspector(text, i, continueWith) {
  const cell = text.cells[i], box = at("inspector");
  const others = Object.entries(cell.top ?? {});
  const rows = others.map(([name, logprob]) => {
    const p = Math.exp(logprob), own = name === cell.name, whole = !name.startsWith("bytes:");
    const bar = make("i", { "aria-hidden": "true" });
    bar.style.setProperty("--share", p.toFixed(4));
    return make("li", {}, make("button", {
      type: "button", class: own ? "own" : "", disabled: !whole, "aria-label": `${visible(name)}, ${percent(p)}: continue with it`,
      onclick: () => { closeInspector(); continueWith(text.before(i) + name); },
    }, make("b", { class: "mono" }, visible(name)), bar, make("span", {}, percent(p))));
  });
  const before = visible(text.before(i).slice(-18));
  box.replaceChildren(...[
    make("p", {}, "after ", make("span", { class: "mono" }, `…${before}`)),
    make("h3", {}, make("b", { class: "mono" }, visible(cell.piece)), cell.surprise === null ? " the first token" :
      ` ${percent(Math.exp(-cell.surprise))}, ${number(cell.surprise, 2)} nats`),
    rows.length ? make("ul", {}, rows) : make("p", {}, "Nothing predicts the first token."),
    rows.length ? make("p", { class: "hint" }, "Choose one, and the text continues from there.") : ""]);
  box.hidden = false;
  place(box, cell.node);
  (box.querySelector("button:not(:disabled)") ?? box).focus({ preventScroll: true });
}

function place(box, node) {
  const paper = box.parentElement.getBoundingClientRect(), spot = node.getBoundingClientRect();
  const left = Math.min(Math.max(spot.left - paper.left - 40, 8), paper.width - box.offsetWidth - 8);
  box.style.left = `${Math.max(left, 8)}px`;
  box.style.top = `${spot.bottom - paper.top + 8}px`;
}

export function closeInspector() {
  const box = at("inspector");
  if (box.hidden) return;
  box.hidden = true;
  at("text").focus({ preventScroll: true });
}

export function startInspector() {
  const box = at("inspector");
  box.tabIndex = -1;
  addEventListener("keydown", (event) => { if (event.key === "Escape") closeInspector(); });
  addEventListener("pointerdown", (event) => { if (!box.contains(event.target)) box.hidden = true; });
  box.addEventListener("keydown", (event) => {
    const buttons = [...box.querySelectorAll("button:not(:disabled)")], i = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: i + 1, ArrowUp: i - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    buttons[(to + buttons.length) % buttons.length]?.focus();
  });
}
