"""What several claims are split by."""

READING = ("space", "support")
LEVELS = (*READING, "level")
SWEEP = ("logits", "epsilon")
