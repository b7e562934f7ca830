"""The training text of the tests of the command."""

TEXT = "The cat sat on the mat, and the dog sat on the log.\n" * 40
