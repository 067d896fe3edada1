"""Bounds of the paper as pure functions of weights and vectors, one module per section."""
