"""Measurements of PerCDL: its speed (`bench`, `gpu`) and its claims (`claims`)."""


class Absent(Exception):
    """Raised when what a measurement needs is not on this machine; the message says what."""
