#!/usr/bin/env python3
"""Validates JSON files against a schema: schema.py SCHEMA FILE... Exit code 1 with a line for each error, 77 without the jsonschema package."""
import json
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: needs the Python package jsonschema (tools/setup installs it)")
    sys.exit(77)


def main():
    schema = json.load(open(sys.argv[1]))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failed = 0
    for path in sys.argv[2:]:
        for error in validator.iter_errors(json.load(open(path))):
            error = jsonschema.exceptions.best_match([error])
            print(f"{path}: {'.'.join(map(str, error.absolute_path))}: {error.message}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
