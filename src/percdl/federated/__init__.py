"""PerCDL over several sites, without moving their recordings (Appendix B).

The names below are imported on first use, so that making keys does not import JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from percdl.federated.consent import Consent
    from percdl.federated.estimator import FederatedPerCDL
    from percdl.federated.privacy import Privacy
    from percdl.federated.private_rounds import suggest_clip
    from percdl.federated.site import FederatedSite

__all__ = ["Consent", "FederatedPerCDL", "FederatedSite", "Privacy", "suggest_clip"]

_MODULES = "consent", "estimator", "site", "privacy", "private_rounds"
_HOMES = dict(zip(__all__, _MODULES, strict=True))


def __getattr__(name: str) -> Any:
    """Import a public name from its home on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'percdl.federated' has no attribute {name!r}")
    return getattr(import_module(f"percdl.federated.{_HOMES[name]}"), name)
