"""Recordings in the containers of other libraries: aeon, sktime, tslearn and MNE."""
