"""Mistakes that somebody could make in looking, one a line, for scripts/mutate: see tests/mutations/maths.py."""

FOLDER = "elman/look"
FLOW, VERDICT, SPECTRA = (f"tests/look/test_look_{name}.py" for name in ("flow", "verdict", "spectra"))
TESTS = {
    "flow.py": [FLOW],
    "traces.py": [FLOW],
    "judging.py": [VERDICT],
    "spectra.py": [SPECTRA],
    "history.py": [SPECTRA, "tests/cli/test_cli_use.py"],
    "clipped.py": [SPECTRA],
}
MUTANTS = [
    ("flow.py", "first = max(lag - 1, 0)", "first = lag", "h[0] is never reached"),
    ("flow.py", "k = t + 1 - lag\n", "k = t - lag\n", "the state before"),
    ("flow.py", "d_o @ text.W_hy.T if lag == 0 else 0.0", "d_o @ text.W_hy.T if lag <= 1 else 0.0", "direct twice"),
    ("flow.py", "d_here @ text.W_xh[layer].T", "d_here @ text.W_hh[layer].T", "the wrong way down the stack"),
    ("flow.py", "d[lag - first :] += from_above", "d[lag - first :] = from_above", "what the step after sends is lost"),
    ("flow.py", "first[-len(part) :]", "first[: len(part)]", "lag 0 of other losses"),
    ("flow.py", "_ratio(d_a, d_h), _ratio(back, d_a)", "_ratio(back, d_a), _ratio(d_a, d_h)", "factors exchanged"),
    ("flow.py", "< gone)", "<= 2 * gone)", "another horizon"),
    ("traces.py", "np.asarray(array, np.float64)", "np.asarray(array)", "single precision"),
    ("traces.py", "None if state is None else", "None if True else", "the state that was given"),
    ("judging.py", "(left < GONE) | (left > GROWN)", "(left < GONE)", "no explosion"),
    ("judging.py", "if activation < recurrent else", "if activation > recurrent + 9 else", "the wrong cause"),
    ("judging.py", "reach = min(reach or flow.steps, flow.steps)", "reach = flow.steps", "the reach is not asked for"),
    ("judging.py", "return 1 + int(", "return int(", "the step before"),
    ("judging.py", "np.nanargmin(factors)", "np.nanargmax(factors)", "where it acts least"),
    ("spectra.py", ".T @ Q)", " @ Q)", "the Jacobian the other way round"),
    ("spectra.py", "total += np.log", "total = np.log", "the last step alone"),
    ("spectra.py", "(at_zero or 1)", "at_zero", "relu is never flat"),
    ("spectra.py", "FLAT * (at_zero or 1)", "FLAT", "the slope of a sigmoid"),
    ("spectra.py", "derivative(h[1:]) <", "derivative(h[:-1]) <", "the initial state counts"),
    ("history.py", 'elif "event" not in row and', "elif", "events are rows"),
    ("history.py", 'earlier["step"] <= row["to"]', "True", "what was rolled back"),
    ("history.py", "isinstance(value, int | float) and", "isinstance(value, str) or", "rows without sense"),
    ("history.py", " and abs(value) < 2**53", "", "NaN in rows"),
    ("clipped.py", "min(1.0, self.clip_norm / self.norm)", "self.clip_norm / self.norm", "a short one is stretched"),
    ("clipped.py", "if clip_norm and norm > clip_norm", "if norm > clip_norm", "0 lets all pass"),
    ("clipped.py", "normaliser=len(y)", "normaliser=1", "the sum instead of the mean"),
]
