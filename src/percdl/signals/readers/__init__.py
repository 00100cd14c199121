"""Files of recordings, one module per format: all recordings or a clear refusal, never half."""
