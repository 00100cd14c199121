"""What several labels share: the fits of a study, its looks and its measurements."""
