"""Mistakes that somebody could make with separate sequences, one a line, for scripts/mutate: see tests/mutations."""

FOLDER = "elman"
STREAM, TASKS, RUNS, SAMPLING = "data/streams.py", "models/tasks.py", "models/runs.py", "models/sampling.py"
TESTS = {file: ["tests/models/test_models_many_texts.py"] for file in (STREAM, TASKS, RUNS, SAMPLING)}
MUTANTS = [
    (STREAM, "begins = self._at == self._stop", "begins = self._at >= 0", "every window begins a sequence"),
    (STREAM, "self._begun += 1", "self._begun += 2", "every second sequence is left out"),
    (STREAM, "np.minimum(self._stop - self._at, self._steps)", "self._stop - self._at", "no window is too long"),
    (STREAM, "self._at += counts", "self._at += self._steps", "lanes read beyond the end"),
    (STREAM, "= self._edges[sequence],", "= self._edges[sequence] + 1,", "the first token is not predicted"),
    (STREAM, "self._begun, self._at, self._stop = begun,", "_, self._at, self._stop = begun,", "it begins again"),
    (TASKS, "self.carried[:, :, window.begins] = 0", "pass", "a sequence begins in the state of another"),
    (SAMPLING, "takewhile(lambda i: i != end, ids)", "ids", "a sequence goes on after its end"),
    (RUNS, "np.unique(checksums, return_inverse=True)", "(0, np.arange(len(checksums)))", "equal ones in two parts"),
]
