"""The JSON schema of experiment and training files, for the completion and checks of editors."""

from __future__ import annotations

from typing import Any

from mtlrun.estimators.registry import METHODS
from mtlrun.interfaces import METRIC_FACTS
from mtlrun.papers.measure import MEASURES
from mtlrun.runs.methods import quantities_of
from mtlrun.runs.spec import ONE_OF, TRAIN, TRAIN_KEYS, TRAIN_METHOD_KEYS, Spec

_PATH = {"type": "string", "pattern": "^[A-Za-z_][\\w.]*:[A-Za-z_]\\w*$"}


def config_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) of every file that mtlrun reads under ``configs``.

    It says what the pydantic models say, and in addition which short forms are read and which methods and metrics
    there are. Files may still be refused for what needs more than one value, see `mtlrun validate`.
    """
    schema: dict[str, Any] = Spec.model_json_schema(by_alias=True)
    models = schema.pop("$defs")
    method, sweep, experiment = models["MethodSpec"]["properties"], models["Sweep"]["properties"], schema["properties"]
    method["estimator"], method["measure"] = _name("Estimator"), _name("Measure")
    sweep["params"] = {"anyOf": [{"type": "string"}, *sweep["params"]["anyOf"]], "default": None}
    models["DatasetSpec"] = {"anyOf": [{"type": "string"}, models["DatasetSpec"]]}
    step = models["FeatureStep"]
    models["FeatureStep"] = {"anyOf": [{"enum": step["properties"]["kind"]["enum"]}, step]}
    training = _training(schema, models["MethodSpec"])
    for name in ("default_for", "tolerance", "reference"):
        experiment[name] = {"anyOf": [experiment[name]["items"], experiment[name]], "default": []}
    experiment["metrics"] = {**experiment["metrics"], "items": _name("Quantity")}
    own = {"required": ["schema", "id", "title"]}  # the rest may stand in the file that it extends
    quantities = sorted({*METRIC_FACTS, *(quantities_of(MEASURES) or ())})
    named = {
        "EstimatorName": {
            "description": "A registered method, or package.module:Class of any scikit-learn estimator.",
            "anyOf": [{"enum": sorted(METHODS)}, _PATH],
        },
        "MeasureName": {
            "description": "A registered measure, or package.module:function.",
            "anyOf": [{"enum": sorted(MEASURES)}, _PATH],
        },
        "MetricName": {"enum": sorted(METRIC_FACTS)},
        "QuantityName": {"anyOf": [{"enum": quantities}, {"type": "string"}]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mtlrun experiment or training file",
        "if": {"properties": {"kind": {"const": TRAIN}}, "required": ["kind"]},
        "then": {"$ref": "#/$defs/Training"},
        "else": {"$ref": "#/$defs/Experiment"},
        "$defs": {**models, **named, "Training": training, "Experiment": {**schema, **own}},
    }


def _name(kind: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{kind}Name"}


def _training(schema: dict[str, Any], method: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a training file: some sections of an experiment, one data set and one method."""
    inner = {**method, "properties": {name: method["properties"][name] for name in TRAIN_METHOD_KEYS}}
    sections = {
        **schema["properties"],
        "metrics": {**schema["properties"]["metrics"], "items": _name("Metric")},
        "dataset": {"$ref": "#/$defs/DatasetSpec"},
        "method": {"anyOf": [_name("Estimator"), {**inner, "required": ["estimator"]}]},
    }
    required = [ONE_OF.get(name, name) for name in schema["required"] if name != "title"]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: sections[name] for name in TRAIN_KEYS},
        "required": [*required, "dataset", "split"],
    }
