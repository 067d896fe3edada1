"""A book on another text or model, under a label of its own, and its comparison with the reference book."""
