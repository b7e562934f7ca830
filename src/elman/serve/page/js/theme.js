// Light or dark: the setting of the system, until the button changes it.

import { at } from "./dom.js";

const STORED_THEME = "elman-theme"; // name in localStorage
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

/** Fires "change". */
export const theme = new EventTarget();

export const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

/** The current value of a color of the style sheet. */
export function color(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function set(wanted) {
  root.dataset.theme = wanted;
  theme.dispatchEvent(new Event("change"));
}

export function startTheme() {
  const kept = localStorage.getItem(STORED_THEME);
  if (kept) set(kept);
  at("theme").addEventListener("click", () => {
    set(isDark() ? "light" : "dark");
    localStorage.setItem(STORED_THEME, root.dataset.theme);
  });
  system.addEventListener("change", () => theme.dispatchEvent(new Event("change")));
}
