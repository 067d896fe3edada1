"""Companion library to *Limitations of Normalization in Attention Mechanism* (NeurIPS 2025, arXiv:2508.17821).

One way through: :mod:`~attention_limits.sources` brings a model and a text, :mod:`~attention_limits.capture`
runs the model once and keeps queries, keys, values and layer inputs, :mod:`~attention_limits.measures` counts
on them what the paper counts, :mod:`~attention_limits.theory` bounds it, :mod:`~attention_limits.records`
keeps the results and :mod:`~attention_limits.charts` draws them.
"""
