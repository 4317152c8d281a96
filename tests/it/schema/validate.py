"""Says of each document whether a JSON Schema takes it, by a validator that is not ours.

stdin: {"schema": ..., "documents": ["YAML", ...]}   stdout: [null or what is wrong, ...]
"""

import json
import re
import sys

import yaml
from jsonschema import Draft7Validator


class Yaml12(yaml.SafeLoader):
    """YAML as editors read it: PyYAML alone reads version 1.1, in which `no` is false and a date is no text."""


Yaml12.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag == "tag:yaml.org,2002:merge"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for tag, pattern, first in (
    ("null", r"(~|null|Null|NULL|)", "~nN\0"),
    ("bool", r"(true|True|TRUE|false|False|FALSE)", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+0123456789."),
):
    # A number that looks whole is one, so the order matters.
    Yaml12.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile("^(?:" + pattern + ")$"), list(first))
Yaml12.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))


def wrong(validator, document):
    """The nearest cause, or None."""
    # JSON is YAML, and much sooner read.
    value = json.loads(document) if document.startswith("{") else yaml.load(document, Yaml12)
    errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.path)))
    return "; ".join("/".join(map(str, error.path)) + ": " + error.message[:200] for error in errors) or None


question = json.load(sys.stdin)
Draft7Validator.check_schema(question["schema"])
judge = Draft7Validator(question["schema"])
json.dump([wrong(judge, document) for document in question["documents"]], sys.stdout)
