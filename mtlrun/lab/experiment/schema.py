"""JSON Schema of experiment and training files, for editors."""

from __future__ import annotations

from typing import Any

from mtlrun.catalog.analysis import ANALYSES
from mtlrun.catalog.interfaces import METRIC_INFO
from mtlrun.catalog.methods import quantities_of
from mtlrun.catalog.registry import METHODS
from mtlrun.lab.experiment.spec import (
    ONE_OF,
    TRAIN,
    TRAIN_KEYS,
    TRAIN_METHOD_KEYS,
    Spec,
)

#: Schema of ``package.module:name``.
_PATH = {"type": "string", "pattern": "^[A-Za-z_][\\w.]*:[A-Za-z_]\\w*$"}


def config_schema() -> dict[str, Any]:
    """Return the schema of the files below ``configs``, in JSON Schema 2020-12.

    It says the same as the pydantic models. In addition, it allows short forms and
    lists the names of methods and metrics. A file that it accepts may still be refused
    for reasons that involve more than one value; `mtlrun validate` finds these.
    """
    schema: dict[str, Any] = Spec.model_json_schema(by_alias=True)
    models = schema.pop("$defs")
    experiment = schema["properties"]
    method = models["MethodSpec"]["properties"]
    method["estimator"] = _name("Estimator")
    method["measure"] = _name("Measure")
    # A data set and a feature step may be written as one text.
    models["DatasetSpec"] = {"anyOf": [{"type": "string"}, models["DatasetSpec"]]}
    step = models["FeatureStep"]
    step_kinds = {"enum": step["properties"]["kind"]["enum"]}
    models["FeatureStep"] = {"anyOf": [step_kinds, step]}
    training = _training_schema(schema, models["MethodSpec"])
    for name in ("tolerance", "reference"):
        # A list with a single entry may be written as this entry.
        section = experiment[name]
        experiment[name] = {
            "anyOf": [section["items"], section],
            "default": [],
            "description": section["description"],
        }
    experiment["metrics"] = {**experiment["metrics"], "items": _name("Quantity")}
    # All other keys may be inherited from the file that it extends.
    required = ["schema", "id", "title"]
    quantities = sorted({*METRIC_INFO, *(quantities_of(ANALYSES) or ())})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mtlrun experiment or training file",
        "if": {"properties": {"kind": {"const": TRAIN}}, "required": ["kind"]},
        "then": {"$ref": "#/$defs/Training"},
        "else": {"$ref": "#/$defs/Experiment"},
        "$defs": {
            **models,
            # `_name` refers to the schemas of names.
            "EstimatorName": {
                "description": "A registered method, or package.module:Class of any "
                "scikit-learn estimator.",
                "anyOf": [{"enum": sorted(METHODS)}, _PATH],
            },
            "MeasureName": {
                "description": "A registered measure, or package.module:function.",
                "anyOf": [{"enum": sorted(ANALYSES)}, _PATH],
            },
            "MetricName": {"enum": sorted(METRIC_INFO)},
            "QuantityName": {"anyOf": [{"enum": quantities}, {"type": "string"}]},
            "Training": training,
            "Experiment": {**schema, "required": required},
        },
    }


def _name(kind: str) -> dict[str, str]:
    """Return a reference to the schema of a kind of names."""
    return {"$ref": f"#/$defs/{kind}Name"}


def _training_schema(schema: dict[str, Any], method: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of training files.

    They have some sections of an experiment, one data set and one method.

    Parameters
    ----------
    schema : dict
        Schema of experiments.
    method : dict
        Schema of an entry of `methods`.
    """
    fields = {name: method["properties"][name] for name in TRAIN_METHOD_KEYS}
    mapping = {**method, "properties": fields, "required": ["estimator"]}
    sections = {
        **schema["properties"],
        "metrics": {**schema["properties"]["metrics"], "items": _name("Metric")},
        "dataset": {"$ref": "#/$defs/DatasetSpec"},
        "method": {"anyOf": [_name("Estimator"), mapping]},
    }
    # A training file needs no title, and has one data set and one method.
    required = []
    for name in schema["required"]:
        if name != "title":
            required.append(ONE_OF.get(name, name))
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: sections[name] for name in TRAIN_KEYS},
        "required": [*required, "dataset", "split"],
    }
