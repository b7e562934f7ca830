"""Mistakes that somebody could make in the loop and its state, one a line, for scripts/mutate: see tests/mutations."""

FOLDER = "elman/training"
KERNELS = "reference"  # what is broken here is none of theirs, and a copy would compile them anew

TRAINER, RESUME = "tests/training/test_training_trainer.py", "tests/training/test_training_resume.py"
TESTS = {
    "trainer.py": [TRAINER, RESUME],
    "state.py": [TRAINER, RESUME],
    "progress_line.py": ["tests/training/test_training_line.py"],
    "schedule.py": [TRAINER],
    "divergence.py": [TRAINER],
    "metrics.py": ["tests/look/test_look_spectra.py", "tests/cli/test_cli_use.py"],
}

MUTANTS = [
    # rows of metrics.jsonl
    ("metrics.py", 'if "event" not in row:', 'if "step" in row:', "events are rows"),
    ("metrics.py", 'kept = [one for one in kept if one["step"] <= row["to"]]', "pass", "what was rolled back"),
    # what is kept
    ("state.py", "self.best[:] = arrays", "arrays", "the best model is not restored"),
    ("state.py", 'buffer[:] = arrays[f"optimizer.{name}"]', "pass", "the optimizer forgets"),
    ("state.py", "self.task.restore(task,", "(task,", "the cursor stays where it is"),
    ("state.py", "self.progress = Progress.from_json(", "Progress.from_json(", "counts go on after a rollback"),
    ("state.py", "copies = {name: array.copy()", "copies = {name: array", "a snapshot changes with the weights"),
    ("state.py", "self.retries + 1, self.rate_factor / 2", "self.retries + 1, self.rate_factor", "the same rate"),
    ("state.py", "self.retries + 1, self.rate_factor / 2", "self.retries, self.rate_factor / 2", "endless tries"),
    ("state.py", 'self.good.metadata["progress"]["worse"] = 0', "pass", "a rollback remembers old patience"),
    ("state.py", "good = self.good or now", "good = now", "a resumed run goes back elsewhere"),
    ("state.py", 'float(metadata["rate_factor"])', "1.0", "a resumed run has the full rate"),
    # the loop
    ("trainer.py", "if 0 < c.clip_norm < norm", "if 0 < c.clip_norm < 0", "nothing is clipped"),
    ("trainer.py", "Rates(rate, p.step + 1,", "Rates(rate, p.step,", "the first step is number 0"),
    ("trainer.py", "p.plateau_factor * self.state.rate_factor", "p.plateau_factor", "the rate is not halved"),
    ("trainer.py", "is_good(p, self.task.baseline_loss) else None", "True else None", "a bad state is kept as good"),
    ("trainer.py", "loss < p.best_loss)", "loss <= p.best_loss)", "as good counts as better"),
    ("trainer.py", "p.worse >= c.patience", "p.worse > c.patience", "one validation too many"),
    (
        "trainer.py",
        "p.worse_rate >= c.plateau_patience",
        "p.worse_rate > c.plateau_patience",
        "the plateau is one longer",
    ),
    ("trainer.py", "self.state.best[:] = self.task", "self.task", "the best model is the first"),
    ("trainer.py", "p.loss_sum, p.loss_count = 0.0, 0", "pass", "rows hold the mean since the start"),
    ("trainer.py", "if self._taken == 2:", "if False:", "compiling counts as speed"),
    (
        "trainer.py",
        "            p.finished = None  # the budget",
        "            pass  # the budget",
        "a budget is final",
    ),
    ("trainer.py", "if self._saved != self._position():", "if False:", "an interrupted run is not saved"),
    ("trainer.py", "state.retries >= c.retries", "state.retries > c.retries", "one try too many"),
    # what is seen of it
    (
        "progress_line.py",
        "isinstance(event, Finished | Failed)",
        "isinstance(event, Finished)",
        "an error leaves the line",
    ),
]
