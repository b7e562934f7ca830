// The figures of Flow, drawn with Plotly from the analyses of the service.

import { at, visible } from "./dom.js";
import { level, levels, plot, scale } from "./plot.js";

const MAX_LABELS = 40; // tokens; a longer axis shows numbers
const DECADES = 8; // powers of ten between the lightest and the darkest color
const log = (value) => (value > 0 ? Math.log10(value) : null);

function labels(tokens) {
  if (tokens.length > MAX_LABELS || innerWidth < 600) return {};
  return { tickvals: tokens.map((_, i) => i), ticktext: tokens.map(visible), tickangle: 0 };
}

const blocks = (c) => [c.accent, c.green, c.violet, c.gold];

/** A gate along the text: units down, tokens across, and the mean of all units above. */
export function drawGates({ units, mean }, name, tokens) {
  const low = name === "g" || name === "n" ? -1 : 0, read = tokens.map(visible);
  plot(at("gates-figure"), (c) => ({
    traces: [
      { type: "heatmap", z: units, text: units.map(() => read), xaxis: "x", yaxis: "y", zmin: low, zmax: 1, colorscale: scale(), colorbar: { thickness: 10, outlinewidth: 0, len: 0.7, y: 0, yanchor: "bottom", tickfont: { color: c.soft } }, hovertemplate: `${name}[%{x}], unit %{y}, at “%{text}”: %{z:.2f}<extra></extra>` },
      { x: mean.map((_, t) => t), y: mean, text: read, xaxis: "x", yaxis: "y2", mode: "lines", line: { color: c.warm, width: 2 }, hovertemplate: `mean of ${name} at “%{text}”: %{y:.2f}<extra></extra>` },
    ],
    layout: {
      margin: { l: 44, r: 0, t: 8, b: 40 },
      xaxis: { title: { text: "token" }, showgrid: false, zeroline: false, ...labels(tokens) },
      yaxis: { title: { text: "unit" }, domain: [0, 0.7], showgrid: false, zeroline: false },
      yaxis2: { title: { text: "mean" }, domain: [0.76, 1], range: [low, 1], gridcolor: c.line, zeroline: false, fixedrange: true },
    },
  }));
}

/** state: its name, h, or s for the h and c of an LSTM together. */
export function drawMap({ map }, tokens, state) {
  const known = map.flat().map(log).filter((v) => v !== null);
  const top = Math.max(...known, -300), bottom = Math.max(top - DECADES, Math.min(...known, top - 1e-6));
  const z = map.map((row) => row.map((v) => (v === null ? null : Math.max(bottom, log(v) ?? bottom))));
  const states = ["the initial state", ...tokens.slice(0, -1).map((token) => `the state after “${visible(token)}”`)];
  const powers = Array.from({ length: DECADES + 2 }, (_, i) => Math.ceil(bottom) + i).filter((e) => e <= top);
  plot(at("map-figure"), (c) => ({
    traces: [{
      type: "heatmap", z, customdata: map, text: map.map((row) => row.map((_, k) => states[k])), hoverongaps: false, colorscale: scale(), zmin: bottom, zmax: top,
      hovertemplate: `‖∂L[%{y}]/∂${state}[%{x}]‖ = %{customdata:.2e}<br>${state}[%{x}] is %{text}<extra></extra>`,
      colorbar: { thickness: 10, outlinewidth: 0, tickvals: powers, ticktext: powers.map((e) => (e ? `10<sup>${e}</sup>` : "1")), tickfont: { color: c.soft } },
    }],
    layout: {
      margin: { l: 44, r: 0, t: 8, b: 44 },
      xaxis: { title: { text: `state ${state}[k], earlier to the left` }, showgrid: false, zeroline: false, ...labels(["0", ...tokens.slice(0, -1)]) },
      yaxis: { title: { text: "loss L[t]" }, autorange: "reversed", showgrid: false, zeroline: false, ...labels(tokens.slice(1)) },
    },
  }));
}

const PATHS = { carry: "through the forget or update gate alone", recurrent: "through h and W_hh alone" };

export function drawLag({ by_lag: left, horizon, paths }) {
  const positive = left.map((v) => (v > 0 ? v : null)), most = Math.max(...positive, 1);
  const wide = horizon === null ? left.length - 1 : Math.min(left.length - 1, Math.max(3 * horizon, 12));
  plot(at("lag-figure"), (c) => ({
    traces: [
      { x: left.map((_, i) => i), y: positive, name: "all paths", mode: "lines", line: { color: c.accent, width: 3 }, hovertemplate: "%{x} steps back: %{y:.2%} is left<extra></extra>" },
      ...Object.entries(paths).map(([name, y]) => ({ x: y.map((_, i) => i), y: y.map((v) => (v > 0 ? v : null)), name: PATHS[name] ?? name, mode: "lines",
        line: { color: name === "carry" ? c.green : c.violet, width: 1.5 }, hovertemplate: `${PATHS[name] ?? name}: %{y:.2%}<extra></extra>` })),
      ...(horizon === null ? [] : [{ x: [horizon], y: [positive[horizon]], showlegend: false, mode: "markers+text", text: [` ${horizon} steps`], textposition: "top right",
        textfont: { color: c.warm }, cliponaxis: false, marker: { size: 11, color: "rgba(0,0,0,0)", line: { width: 3, color: c.warm } }, hovertemplate: "the memory horizon: %{x} steps<extra></extra>" }]),
    ],
    layout: {
      showlegend: Object.keys(paths).length > 0, xaxis: { title: { text: "steps back" }, range: [0, wide] },
      yaxis: { type: "log", range: [Math.min(-2.6, Math.log10(Math.max(Math.min(...positive.filter((v, i) => v && i <= wide)), 1e-6))), Math.log10(most) + 0.2], dtick: 1, tickformat: ".4~p" },
      ...levels(level(0.01, "1 % is left", { log: true })),
    },
  }));
}

export function drawFactors({ activation, recurrent }, slope) {
  const shown = Math.max(Math.ceil(activation.length / 2), Math.min(activation.length, 24)), lags = activation.slice(0, shown).map((_, i) => i + 1);
  const both = lags.map((_, i) => (activation[i] === null || recurrent[i] === null ? null : activation[i] * recurrent[i]));
  const trace = (name, y, color, width) => ({ x: lags, y, name, mode: "lines", line: { color, width }, hovertemplate: `${name}: ×%{y:.3f}<extra></extra>` });
  plot(at("factor-figure"), (c) => ({
    traces: [trace(slope, activation.slice(0, shown), c.gold, 1.5), trace("W_hh", recurrent.slice(0, shown), c.violet, 1.5), trace("both", both, c.accent, 3)],
    layout: { showlegend: true, xaxis: { title: { text: "steps back" }, rangemode: "tozero" }, yaxis: { rangemode: "tozero" }, ...levels(level(1, "1: unchanged")) },
  }));
}

export function drawEigen({ recurrent, jacobians }) {
  const points = (pairs, name, color, size, opacity) => ({ x: pairs.map((p) => p[0]), y: pairs.map((p) => p[1]), name, mode: "markers",
    marker: { color, size, opacity }, hovertemplate: `${name}: %{x:.3f} + %{y:.3f} i<extra></extra>` });
  plot(at("eigen-figure"), (c) => ({
    traces: [points(jacobians.eigenvalues.flat(), "Jacobians", c.warm, 4, 0.45),
      ...Object.entries(recurrent).map(([name, { eigenvalues }], i) => points(eigenvalues, name, blocks(c)[i], 5, 0.85))],
    layout: {
      showlegend: true, xaxis: { scaleanchor: "y", constrain: "domain", zeroline: true }, yaxis: { constrain: "domain" },
      shapes: [{ type: "circle", x0: -1, y0: -1, x1: 1, y1: 1, layer: "above", line: { color: c.ink, width: 1.5, dash: "dot" } }],
    },
  }));
}

export function drawSingular({ recurrent, jacobians }) {
  const rank = (values) => values.map((_, i) => i + 1);
  const some = jacobians.singular.map((y, i) => ({ x: rank(y), y, name: "Jacobians", showlegend: i === 0, mode: "lines", opacity: 0.6,
    hovertemplate: `Jacobian of step ${jacobians.steps[i]}: %{y:.3f}<extra></extra>` }));
  plot(at("singular-figure"), (c) => ({
    traces: [...some.map((trace) => ({ ...trace, line: { color: c.warm, width: 1 } })),
      ...Object.entries(recurrent).map(([name, { singular }], i) => ({ x: rank(singular), y: singular, name, mode: "lines", line: { color: blocks(c)[i], width: 3 }, hovertemplate: `${name}, number %{x}: %{y:.3f}<extra></extra>` }))],
    layout: { showlegend: true, xaxis: { title: { text: "number, the largest first" } }, yaxis: { rangemode: "tozero" }, ...levels(level(1, "1: unchanged")) },
  }));
}

export function drawStates({ saturation }) {
  const all = Object.entries(saturation), one = all.length === 1;
  plot(at("state-figure"), (c) => ({
    traces: all.map(([name, { counts, edges }], i) => {
      const total = Math.max(1, counts.reduce((a, b) => a + b, 0)), x = counts.map((_, j) => (edges[j] + edges[j + 1]) / 2), y = counts.map((n) => n / total);
      const look = one ? { type: "bar", marker: { color: c.green } } : { mode: "lines", line: { color: blocks(c)[i], width: 2, shape: "hvh" } };
      return { x, y, name, ...look, hovertemplate: `${name} ≈ %{x:.2f}: %{y:.1%}<extra></extra>` };
    }),
    layout: { showlegend: !one, bargap: 0.06, xaxis: { title: { text: one ? all[0][0] : "value of the gate" } }, yaxis: { tickformat: ".0%" } },
  }));
}

export function drawLyapunov({ lyapunov }) {
  plot(at("lyapunov-figure"), (c) => ({
    traces: [{ x: lyapunov.map((_, i) => i + 1), y: lyapunov, mode: "lines+markers", line: { color: c.violet, width: 2 }, marker: { size: 5 }, hovertemplate: "number %{x}: %{y:.3f} nats per step<extra></extra>" }],
    layout: { xaxis: { title: { text: "number" } }, ...levels(level(0, "0")) },
  }));
}
