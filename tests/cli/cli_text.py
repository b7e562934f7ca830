"""What the tests of the command train on."""

TEXT = "The cat sat on the mat, and the dog sat on the log.\n" * 40
