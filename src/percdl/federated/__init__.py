"""PerCDL over several sites whose recordings stay where they are (Appendix B)."""
