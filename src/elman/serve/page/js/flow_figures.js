// The figures of Flow: from what the service found to what Plotly draws.

import { at, visible } from "./dom.js";
import { level, levels, plot, scale } from "./plot.js";

const LABELLED = 40; // tokens; a longer axis shows numbers
const DECADES = 8; // powers of ten that the colors tell apart
const log = (value) => (value > 0 ? Math.log10(value) : null);

function labels(tokens) {
  if (tokens.length > LABELLED || innerWidth < 600) return {};
  return { tickvals: tokens.map((_, i) => i), ticktext: tokens.map(visible), tickangle: 0 };
}

export function drawMap({ map }, tokens) {
  const known = map.flat().map(log).filter((v) => v !== null);
  const top = Math.max(...known, -300), bottom = Math.max(top - DECADES, Math.min(...known, top - 1e-6));
  const z = map.map((row) => row.map((v) => (v === null ? null : Math.max(bottom, log(v) ?? bottom))));
  const read = ["the start", ...tokens.slice(0, -1).map((token) => `“${visible(token)}”`)];
  const powers = Array.from({ length: DECADES + 2 }, (_, i) => Math.ceil(bottom) + i).filter((e) => e <= top);
  plot(at("map-figure"), (c) => ({
    traces: [{
      type: "heatmap", z, customdata: map, text: map.map((row) => row.map((_, k) => read[k])), hoverongaps: false, colorscale: scale(), zmin: bottom, zmax: top,
      hovertemplate: "‖∂L[%{y}]/∂h[%{x}]‖ = %{customdata:.2e}<br>h[%{x}] is the state after %{text}<extra></extra>",
      colorbar: { thickness: 10, outlinewidth: 0, tickvals: powers, ticktext: powers.map((e) => (e ? `10<sup>${e}</sup>` : "1")), tickfont: { color: c.soft } },
    }],
    layout: {
      margin: { l: 44, r: 0, t: 8, b: 44 },
      xaxis: { title: { text: "state h[k]: the further left, the longer ago" }, showgrid: false, zeroline: false, ...labels(["0", ...tokens.slice(0, -1)]) },
      yaxis: { title: { text: "loss L[t]" }, autorange: "reversed", showgrid: false, zeroline: false, ...labels(tokens.slice(1)) },
    },
  }));
}

export function drawLag({ by_lag: left, horizon }) {
  const positive = left.map((v) => (v > 0 ? v : null)), most = Math.max(...positive, 1);
  const wide = horizon === null ? left.length - 1 : Math.min(left.length - 1, Math.max(3 * horizon, 12));
  plot(at("lag-figure"), (c) => ({
    traces: [
      { x: left.map((_, i) => i), y: positive, mode: "lines", line: { color: c.accent, width: 3 }, hovertemplate: "%{x} steps back: %{y:.2%} is left<extra></extra>" },
      ...(horizon === null ? [] : [{ x: [horizon], y: [positive[horizon]], mode: "markers+text", text: [` ${horizon} steps`], textposition: "top right",
        textfont: { color: c.warm }, cliponaxis: false, marker: { size: 11, color: "rgba(0,0,0,0)", line: { width: 3, color: c.warm } }, hovertemplate: "the memory horizon: %{x} steps<extra></extra>" }]),
    ],
    layout: {
      xaxis: { title: { text: "steps back" }, range: [0, wide] },
      yaxis: { type: "log", range: [Math.min(-2.6, Math.log10(Math.max(Math.min(...positive.filter((v, i) => v && i <= wide)), 1e-6))), Math.log10(most) + 0.2], dtick: 1, tickformat: ".4~p" },
      ...levels(level(0.01, "1 %", { log: true })),
    },
  }));
}

export function drawFactors({ activation, recurrent }, slope) {
  const shown = Math.max(Math.ceil(activation.length / 2), Math.min(activation.length, 24)), lags = activation.slice(0, shown).map((_, i) => i + 1);
  const both = lags.map((_, i) => (activation[i] === null || recurrent[i] === null ? null : activation[i] * recurrent[i]));
  const trace = (name, y, color, width) => ({ x: lags, y, name, mode: "lines", line: { color, width }, hovertemplate: `${name}: ×%{y:.3f}<extra></extra>` });
  plot(at("factor-figure"), (c) => ({
    traces: [trace(slope, activation.slice(0, shown), c.gold, 1.5), trace("W_hh", recurrent.slice(0, shown), c.violet, 1.5), trace("both", both, c.accent, 3)],
    layout: { showlegend: true, xaxis: { title: { text: "steps back" }, rangemode: "tozero" }, yaxis: { rangemode: "tozero" }, ...levels(level(1)) },
  }));
}

export function drawEigen({ W_hh, jacobians }) {
  const points = (pairs, name, color, size, opacity) => ({ x: pairs.map((p) => p[0]), y: pairs.map((p) => p[1]), name, mode: "markers",
    marker: { color, size, opacity }, hovertemplate: `${name}: %{x:.3f} + %{y:.3f} i<extra></extra>` });
  plot(at("eigen-figure"), (c) => ({
    traces: [points(jacobians.eigenvalues.flat(), "Jacobians", c.warm, 4, 0.45), points(W_hh.eigenvalues, "W_hh", c.accent, 5, 0.9)],
    layout: {
      showlegend: true, xaxis: { scaleanchor: "y", constrain: "domain", zeroline: true }, yaxis: { constrain: "domain" },
      shapes: [{ type: "circle", x0: -1, y0: -1, x1: 1, y1: 1, line: { color: c.ink, width: 1.5, dash: "dot" } }],
    },
  }));
}

export function drawSingular({ W_hh, jacobians }) {
  const rank = W_hh.singular.map((_, i) => i + 1);
  const some = jacobians.singular.map((y, i) => ({ x: rank, y, name: "Jacobians", showlegend: i === 0, mode: "lines", opacity: 0.6,
    hovertemplate: `Jacobian of step ${jacobians.steps[i]}: %{y:.3f}<extra></extra>` }));
  plot(at("singular-figure"), (c) => ({
    traces: [...some.map((trace) => ({ ...trace, line: { color: c.warm, width: 1 } })), { x: rank, y: W_hh.singular, name: "W_hh", mode: "lines", line: { color: c.accent, width: 3 }, hovertemplate: "W_hh, number %{x}: %{y:.3f}<extra></extra>" }],
    layout: { showlegend: true, xaxis: { title: { text: "number" } }, yaxis: { rangemode: "tozero" }, ...levels(level(1)) },
  }));
}

export function drawStates({ saturation: { counts, edges } }) {
  const total = Math.max(1, counts.reduce((a, b) => a + b, 0));
  plot(at("state-figure"), (c) => ({
    traces: [{ type: "bar", x: counts.map((_, i) => (edges[i] + edges[i + 1]) / 2), y: counts.map((n) => n / total), marker: { color: c.green }, hovertemplate: "h ≈ %{x:.2f}: %{y:.1%}<extra></extra>" }],
    layout: { bargap: 0.06, xaxis: { title: { text: "h" } }, yaxis: { tickformat: ".0%" } },
  }));
}

export function drawLyapunov({ lyapunov }) {
  plot(at("lyapunov-figure"), (c) => ({
    traces: [{ x: lyapunov.map((_, i) => i + 1), y: lyapunov, mode: "lines+markers", line: { color: c.violet, width: 2 }, marker: { size: 5 }, hovertemplate: "number %{x}: %{y:.3f} nats a step<extra></extra>" }],
    layout: { xaxis: { title: { text: "number" } }, ...levels(level(0, "above: they grow")) },
  }));
}
