"""See through a network: gradient flow, spectra, units, steps. Plain data first; figures, which need plotly, over it.

Importing is cheap: a public name loads its module when it is first used.
"""

from importlib import import_module
from typing import Any

_HOME = {
    # how far back a gradient reaches, and why no further
    "gradient_flow": "flow",
    "GradientFlow": "flow",
    "memory_horizon": "flow",
    "verdict": "flow_verdict",
    "verdicts": "flow_verdict",
    "Verdict": "flow_verdict",
    "clipping": "gradient_clipping",
    "clipped_steps": "gradient_clipping",
    "Clipping": "gradient_clipping",
    "gradient_history": "history",
    "GradientHistory": "history",
    # what the state does
    "trace": "traces",
    "Trace": "traces",
    "spectrum": "spectra",
    "Spectrum": "spectra",
    "jacobian_spectra": "spectra",
    "JacobianSpectra": "spectra",
    "lyapunov_exponents": "spectra",
    "saturation": "spectra",
    "Saturation": "spectra",
    # what the units track, and what surprised the model
    "read_text": "units",
    "Reading": "units",
    "rank_units": "units",
    "Ranking": "units",
    "UnitScore": "units",
    # every equation with its numbers
    "steps_data": "steps",
    # the first three at once
    "examine": "report_data",
    "Examination": "report_data",
    # with plotly
    "flow_heatmap": "figures",
    "flow_by_lag": "figures",
    "flow_factors": "figures",
    "eigenvalue_plane": "figures_spectra",
    "singular_values": "figures_spectra",
    "lyapunov_spectrum": "figures_spectra",
    "state_histogram": "figures_spectra",
    "saturation_along": "figures_spectra",
    "gradient_norms": "figures_spectra",
    "unit_along_text": "figures_units",
    "units_along_text": "figures_units",
    "surprise_along_text": "figures_units",
    "best_units": "figures_units",
    "report_html": "report",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'elman.look' has no attribute {name!r}")
    value = getattr(import_module(f"elman.look.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
