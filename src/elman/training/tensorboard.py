"""A listener that writes TensorBoard event files (extra: tensorboard)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from elman.errors import MissingExtraError
from elman.training.events import Event, Failed, Finished, Started, Stepped

SCALARS = ("loss", "validation_loss", "validation_accuracy", "gradient_norm", "learning_rate", "tokens_per_second")


class TensorBoard:
    """Writes losses, gradient norms and samples to event files in a folder."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise MissingExtraError(
                "TensorBoard files need tensorboardX", do="Install it: pip install 'elman[tensorboard]'"
            ) from None
        self._new_writer = partial(SummaryWriter, str(folder))
        self.writer: Any = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            # only now, because the run folder must not exist before the run. The name of a file contains the second in
            # which it is created; the step is added so that a run resumed at once does not replace its first file
            self.writer = self._new_writer(filename_suffix=f".{event.step}")
        elif isinstance(event, Stepped) and event.logged:
            for name in SCALARS:
                value = getattr(event, name)
                if value is not None:
                    self.writer.add_scalar(name, value, event.step)
            for name, norm in (event.gradient_norms or {}).items():
                self.writer.add_scalar(f"gradient_norms/{name}", norm, event.step)
            if event.sample is not None:
                self.writer.add_text("sample", event.sample, event.step)
        elif isinstance(event, Finished | Failed) and self.writer is not None:
            self.writer.close()
