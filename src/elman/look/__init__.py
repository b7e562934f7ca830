"""Analyze networks: gradient flow, spectra, gates, units, attribution, step-by-step equations; as data and as figures.

``look.report(model, text)`` makes a page with most analyses of a model. Figures and reports need plotly (the extra
`look`). Importing is cheap: a public name loads its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elman.look.analysis import Analysis, LayerAnalysis, examine
    from elman.look.attention import AttentionMap, attention_map
    from elman.look.attributions import Attribution, attribution
    from elman.look.figures import (
        attribution_along_text,
        best_units,
        eigenvalue_plane,
        flow_by_lag,
        flow_factors,
        flow_heatmap,
        gates_along_text,
        gradient_norms,
        lyapunov_spectrum,
        saturation_along,
        singular_values,
        state_histogram,
        surprise_along_text,
        unit_along_text,
        units_along_text,
    )
    from elman.look.flow import GradientFlow, gradient_flow, memory_horizon
    from elman.look.flow_verdict import Verdict, verdict, verdicts
    from elman.look.gradient_clipping import ClippedSteps, Clipping, clipped_steps, clipping
    from elman.look.history import GradientHistory, gradient_history
    from elman.look.html_report import Report, report
    from elman.look.spectra import (
        JacobianSpectra,
        Saturation,
        Spectrum,
        jacobian_spectra,
        layer_saturation,
        lyapunov_exponents,
        recurrent_spectra,
        saturation,
        spectrum,
    )
    from elman.look.steps import steps_data
    from elman.look.steps_page import StepsPage, step_through
    from elman.look.traces import LayerTrace, Trace, trace
    from elman.look.units import Ranking, Reading, UnitScore, rank_units, read_text

_MODULES = {
    "analysis": (
        "Analysis",
        "LayerAnalysis",
        "examine",
    ),
    "attention": (
        "AttentionMap",
        "attention_map",
    ),
    "attributions": (
        "Attribution",
        "attribution",
    ),
    "figures": (
        "attribution_along_text",
        "best_units",
        "eigenvalue_plane",
        "flow_by_lag",
        "flow_factors",
        "flow_heatmap",
        "gates_along_text",
        "gradient_norms",
        "lyapunov_spectrum",
        "saturation_along",
        "singular_values",
        "state_histogram",
        "surprise_along_text",
        "unit_along_text",
        "units_along_text",
    ),
    "flow": (
        "GradientFlow",
        "gradient_flow",
        "memory_horizon",
    ),
    "flow_verdict": (
        "Verdict",
        "verdict",
        "verdicts",
    ),
    "gradient_clipping": (
        "ClippedSteps",
        "Clipping",
        "clipped_steps",
        "clipping",
    ),
    "history": (
        "GradientHistory",
        "gradient_history",
    ),
    "html_report": (
        "Report",
        "report",
    ),
    "spectra": (
        "JacobianSpectra",
        "Saturation",
        "Spectrum",
        "jacobian_spectra",
        "layer_saturation",
        "lyapunov_exponents",
        "recurrent_spectra",
        "saturation",
        "spectrum",
    ),
    "steps": ("steps_data",),
    "steps_page": ("StepsPage", "step_through"),
    "traces": (
        "LayerTrace",
        "Trace",
        "trace",
    ),
    "units": (
        "Ranking",
        "Reading",
        "UnitScore",
        "rank_units",
        "read_text",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Analysis",
    "AttentionMap",
    "Attribution",
    "ClippedSteps",
    "Clipping",
    "GradientFlow",
    "GradientHistory",
    "JacobianSpectra",
    "LayerAnalysis",
    "LayerTrace",
    "Ranking",
    "Reading",
    "Report",
    "Saturation",
    "Spectrum",
    "StepsPage",
    "Trace",
    "UnitScore",
    "Verdict",
    "attention_map",
    "attribution",
    "attribution_along_text",
    "best_units",
    "clipped_steps",
    "clipping",
    "eigenvalue_plane",
    "examine",
    "flow_by_lag",
    "flow_factors",
    "flow_heatmap",
    "gates_along_text",
    "gradient_flow",
    "gradient_history",
    "gradient_norms",
    "jacobian_spectra",
    "layer_saturation",
    "lyapunov_exponents",
    "lyapunov_spectrum",
    "memory_horizon",
    "rank_units",
    "read_text",
    "recurrent_spectra",
    "report",
    "saturation",
    "saturation_along",
    "singular_values",
    "spectrum",
    "state_histogram",
    "step_through",
    "steps_data",
    "surprise_along_text",
    "trace",
    "unit_along_text",
    "units_along_text",
    "verdict",
    "verdicts",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'elman.look' has no attribute {name!r}")
    value = getattr(import_module(f"elman.look.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
