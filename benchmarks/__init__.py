"""Measurements of PerCDL: its speed (`bench`, `gpu`) and its claims (`claims`)."""
