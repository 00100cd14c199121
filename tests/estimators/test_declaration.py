"""A hyper-parameter is declared once; everything else follows."""

from dataclasses import fields
from typing import Annotated

import numpy as np
import pytest
from numpydoc.docscrape import ClassDoc
from small_models import OPTIONS

from percdl import Algorithm, IndCDL, L0Coder, L1Coder, PerCDL, PopCDL
from percdl.algorithm.settings import Huber
from percdl.estimators import modelfile
from percdl.estimators.base import BaseCDL
from percdl.estimators.hyperparameters import estimator
from percdl.exceptions import InvalidParameterError
from percdl.parameters import Count, Doc, parameters_of

DECLARED = [PerCDL, PopCDL, IndCDL, Algorithm, Huber, L0Coder, L1Coder]


@estimator
class Shouting(BaseCDL):
    """A model with one more hyper-parameter.

    Examples
    --------
    >>> Shouting(volume=11).volume
    11
    """

    volume: Annotated[Count, Doc("How loud the fit is.", "Technical")] = 3


def test_a_hyper_parameter_that_is_declared_is_everywhere(monkeypatch):
    """Adding it took the declaration above, and no other file."""
    assert Shouting(volume=11).get_params()["volume"] == 11  # constructor
    with pytest.raises(InvalidParameterError, match=r"`Shouting\(volume=0\)` must be an integer"):
        Shouting(volume=0).fit(np.zeros((2, 60)))  # validation
    described = {entry.name: entry for entry in ClassDoc(Shouting)["Parameters"]}
    assert described["volume"].type == "int"  # documentation
    assert described["volume"].desc == ["How loud the fit is."]
    listed = parameters_of(Shouting)[-1]  # options of commands, config files
    assert (listed.name, listed.default, listed.group) == ("volume", 3, "Technical")
    assert listed.meaning == "How loud the fit is."
    header = modelfile.encode_parameters(Shouting(volume=7), {})  # files and agreements
    assert header["volume"] == 7
    monkeypatch.setitem(modelfile.MODELS, "Shouting", Shouting)
    assert modelfile.decode_model("Shouting", header, {}).volume == 7
    with pytest.raises(InvalidParameterError, match="volume"):
        modelfile.decode_model("Shouting", {**header, "volume": "loud"}, {})


@pytest.mark.parametrize("cls", DECLARED)
def test_every_argument_is_declared_and_documented(cls):
    names = [field.name for field in fields(cls) if field.init]
    assert [parameter.name for parameter in parameters_of(cls)] == names
    assert [entry.name for entry in ClassDoc(cls)["Parameters"]] == names
    for parameter in parameters_of(cls):
        assert parameter.accepts(parameter.default)


def test_small_models_use_names_that_exist():
    known = {p.name for cls in (PerCDL, Algorithm, L0Coder) for p in parameters_of(cls)}
    assert OPTIONS.keys() <= known
