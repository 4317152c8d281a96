"""What Helm makes of charts, and what Kubernetes' own schemas say of manifests: jobs in JSON on stdin, results on stdout.

    {"versions": ["1.29"], "charts": [{"name": …, "path": …, "values": "yaml"}], "manifests": [{"name": …, "paths": […]}]}

Beside the standard library it has the tools that .githooks/tools installs, and no network.
"""

import json
import sys

import helm_python as helm
import kubernetes_validate
import yaml


class Loader(yaml.SafeLoader):
    """A reader that refuses a key that is there twice, as the API server does."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice[0]} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def documents(source, text, versions):
    for found in yaml.load_all(text, Loader=Loader):
        if found is None:
            continue
        known, complaints = "kind" in found, []
        for version in versions if known else []:
            try:
                kubernetes_validate.validate(found, version, strict=True)
            except kubernetes_validate.SchemaNotFoundError:
                known = False
            except kubernetes_validate.ValidationError as error:
                path = ".".join(str(step) for step in error.path)
                complaints.append(f"{version}: {path}: {error.message}")
        yield {"from": source, "object": found, "known": known, "complaints": complaints}


def chart(job, versions):
    values = helm.values_from_yaml(job["values"]) if job["values"].strip() else {}
    result = {"name": job["name"], "error": None, "findings": [], "documents": [], "notes": ""}
    try:
        with helm.Chart.load(job["path"]) as loaded:
            rendered = loaded.render(values, name="demo", namespace="agents", is_install=True)
    except helm.HelmError as error:
        return result | {"error": str(error)}
    for version in versions:
        report = helm.lint(job["path"], values, strict=True, kube_version=f"v{version}.0")
        # 1 is information, such as that there is no icon.
        result["findings"] += [f"{found['path']}: {found['error']}" for found in report["messages"] if found["severity"] > 1]
        result["findings"] += report["errors"] or []
    for source, text in sorted(rendered.items()):
        if source.endswith("NOTES.txt"):
            result["notes"] += text
        else:
            result["documents"] += documents(source, text, versions)
    return result


def manifests(job, versions):
    found = []
    for path in job["paths"]:
        with open(path, encoding="utf-8") as file:
            found += documents(path, file.read(), versions)
    return {"name": job["name"], "documents": found}


asked = json.load(sys.stdin)
json.dump(
    {
        "charts": [chart(job, asked["versions"]) for job in asked["charts"]],
        "manifests": [manifests(job, asked["versions"]) for job in asked["manifests"]],
    },
    sys.stdout,
)
