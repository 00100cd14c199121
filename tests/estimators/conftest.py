"""Models fitted once for all tests of the estimators; tests must leave them as they are."""

import jaxtyping
import pytest
import small_models


@pytest.fixture(scope="session")
def cohort():
    """Four recordings of unequal lengths."""
    return small_models.spaced_cohort(0)


@pytest.fixture(scope="session")
def fitted_models(cohort):
    """The three models, by name."""
    return {name: small_models.make(name).fit(cohort) for name in small_models.NAMES}


@pytest.fixture(params=small_models.NAMES)
def fitted(request, fitted_models):
    """Each of the three models, fitted to ``cohort``."""
    return fitted_models[request.param]


@pytest.fixture
def any_types():
    """Let constructors take anything, as they do where types are not checked."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
