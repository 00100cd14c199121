"""The paper's algorithm as printed, without what was added to it here."""

PLAIN = {"realign": False, "multistart": False, "centering": "paper"}
