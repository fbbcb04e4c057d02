# lit's configuration: *.mlir, *.test and *.py below test/ are tests by their RUN lines.
import os
import subprocess
import sys

import lit.formats

config.name = "DistTrain"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["CMakeLists.txt", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.dt_build, "test")

# test/plugin is about an installed compiler and plugins that were built against it: test/plugin/check.py says where.
installed = lit_config.params.get("installed")
config.substitutions.append(("%plugins", lit_config.params.get("plugins", "")))
if not installed:
    config.excludes.append("plugin")
config.environment["PATH"] = os.pathsep.join([os.path.join(installed or config.dt_build, "bin"), config.llvm_tools, config.environment["PATH"]])
config.substitutions.append(("%source", config.dt_source))
config.substitutions.append(("%build", config.dt_build))
config.substitutions.append(("%{path}", config.environment["PATH"]))
venv = os.path.join(config.dt_source, ".venv", "bin", "python")
python = venv if os.path.exists(venv) else sys.executable
config.substitutions.append(("%python", python))

# Tests that need Python packages say so with REQUIRES.
if subprocess.run([python, "-c", "import jsonschema"], capture_output=True).returncode == 0:
    config.available_features.add("jsonschema")
