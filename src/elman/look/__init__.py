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
    "LayerTrace": "traces",
    "spectrum": "spectra",
    "recurrent_spectra": "spectra",
    "layer_saturation": "spectra",
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
    "examine": "analysis",
    "Analysis": "analysis",
    "LayerAnalysis": "analysis",
    # with plotly
    "flow_heatmap": "figures",
    "flow_by_lag": "figures",
    "flow_factors": "figures",
    "eigenvalue_plane": "figures",
    "singular_values": "figures",
    "lyapunov_spectrum": "figures",
    "state_histogram": "figures",
    "saturation_along": "figures",
    "gradient_norms": "figures",
    "unit_along_text": "figures",
    "units_along_text": "figures",
    "surprise_along_text": "figures",
    "best_units": "figures",
    "gates_along_text": "figures",
    "report": "html_report",
    "Report": "html_report",
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
