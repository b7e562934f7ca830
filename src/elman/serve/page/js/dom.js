// Small helpers for elements, numbers and tokens.

/** The element with this id. */
export const at = (id) => document.getElementById(id);

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

export const make = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

export const draw = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** A token with visible white space. */
export const visible = (token) =>
  token.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll("\r", "«") || "∅";

export function number(value, digits = 3) {
  if (value == null) return "not finite";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size < 5 * 10 ** (-digits - 1) || size >= 1e6 ? value.toExponential(1) : value.toFixed(digits);
}

export const count = (value) => Math.round(value).toLocaleString("en");

export const percent = (fraction, digits = 0) =>
  fraction >= 0.0995 ? `${(100 * fraction).toFixed(digits)} %` : fraction >= 0.0005 ? `${(100 * fraction).toFixed(1)} %` : "< 0.1 %";

/** Debounces: several calls in quick succession become one, after the last. */
export function debounced(call, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), milliseconds);
  };
}

export const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

/** One tooltip that follows the pointer over elements with data-tip. */
export function tips(root) {
  const tip = at("tip");
  const hide = () => { tip.hidden = true; };
  root.addEventListener("pointermove", (event) => {
    const text = event.target.closest?.("[data-tip]")?.dataset.tip;
    if (!text) return hide();
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${event.clientY + 20 + height > innerHeight ? event.clientY - height - 12 : event.clientY + 18}px`;
  });
  root.addEventListener("pointerleave", hide);
  root.addEventListener("click", hide);
}
