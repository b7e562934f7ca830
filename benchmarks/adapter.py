"""How the benchmark runs the Elman of this commit. `scripts/bench --against COMMIT` uses the file of that commit.

A change of Elman's internals is followed here, by writing these three functions anew for it; adapter_04bc60f.py stays
as it is, for the commits before this file existed.
"""

from adapter_04bc60f import sampler, task_step, training_step

__all__ = ["sampler", "task_step", "training_step"]
