"""Steps that change the samples, each written down in the recording it returns."""
