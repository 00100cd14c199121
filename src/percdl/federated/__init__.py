"""PerCDL over several sites whose recordings stay where they are (Appendix B).

The names below are imported when they are first used: making keys takes no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from percdl.federated.admission import Consent
    from percdl.federated.clip import suggest_clip
    from percdl.federated.front import FederatedPerCDL
    from percdl.federated.privacy import Privacy
    from percdl.federated.site import FederatedSite

__all__ = ["Consent", "FederatedPerCDL", "FederatedSite", "Privacy", "suggest_clip"]

_HOME = {
    "Consent": "admission",
    "FederatedPerCDL": "front",
    "FederatedSite": "site",
    "Privacy": "privacy",
    "suggest_clip": "clip",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'percdl.federated' has no attribute {name!r}")
    value = getattr(import_module(f"percdl.federated.{_HOME[name]}"), name)
    globals()[name] = value  # the next access finds it without coming here
    return value
