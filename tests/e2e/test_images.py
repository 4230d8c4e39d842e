import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from devcluster.imaging import build_images, buildah
from devcluster.programs.gobuild import Say
from tests.support.gangs.images import BuiltImage, all_images, constraint, runner_on

OPERATOR_BYTES = 300_000_000
CODE_BYTES = 5_000_000
COMPILERS = ("gcc", "cc", "g++", "c++", "clang", "ld", "as")
REFUSES_TO_START = 30
# Shaped like pytorch/pytorch:*-runtime: Python in /opt/conda, root, no C++ compiler, and here no headers of Python.
LIKE_PYTORCH = f"""
FROM {buildah.local(build_images.TORCH)}
USER 0:0
RUN apt-get purge -qy g++ && apt-get autoremove -qy --purge && rm -rf /usr/include/python3* \\
 && ! command -v gcc && ! command -v g++ \\
 && python3 -m venv --copies --without-pip --system-site-packages /opt/conda
ENV PATH=/opt/conda/bin:$PATH
WORKDIR /workspace
"""
# As triton and inductor do: a compiler, Python's headers, a folder that can be written to.
EXTENSION = """
import os, pathlib, subprocess, sys, tempfile
from disttest_runner.suites import toolchain

SOURCE = '''
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME", 0, -1, 0};
PyMODINIT_FUNC PyInit_NAME(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyModule_AddIntConstant(module, "answer", 42);
    return module;
}
'''
sys.path.insert(0, tempfile.mkdtemp())
for compiler, suffix in (("gcc", "c"), ("g++", "cpp")):
    name = f"built_as_{suffix}"
    source = pathlib.Path(sys.path[0], f"{name}.{suffix}")
    source.write_text(SOURCE.replace("NAME", name))
    options = ["-shared", "-fPIC", f"-I{toolchain.INCLUDE}", "-o", str(source.with_suffix(".so"))]
    subprocess.run([compiler, *options, str(source)], check=True)
    print(compiler, __import__(name).answer)
print(toolchain.why_triton_cannot(os.environ, toolchain.INCLUDE) or "triton can compile")
"""


@pytest.fixture(scope="module")
def made(images: None) -> Mapping[str, BuiltImage]:
    return {image.name: image for image in all_images()}


@pytest.fixture(scope="module")
def operator(made: Mapping[str, BuiltImage]) -> BuiltImage:
    return made["disttest-operator"]


@pytest.fixture(scope="module")
def runner(made: Mapping[str, BuiltImage]) -> BuiltImage:
    return made["disttest-runner"]


@pytest.fixture(scope="module", params=["torch", "like-pytorch"])
def on_each_base(request: pytest.FixtureRequest, runner: BuiltImage, torch: BuiltImage, say: Say) -> BuiltImage:
    """The runner on the default base, and on one that is shaped like PyTorch's runtime images."""
    return runner if request.param == "torch" else runner_on("disttest-runner-like-pytorch", LIKE_PYTORCH, say)


@pytest.fixture(scope="module")
def torch(made: Mapping[str, BuiltImage]) -> BuiltImage:
    if "disttest-torch" not in made:
        pytest.skip("the images were made on a base that has torch")
    return made["disttest-torch"]


def found(image: BuiltImage, *programs: str) -> list[str]:
    """Which of these are on PATH."""
    said = image.run("sh", "-c", f"for program in {' '.join(programs)}; do command -v $program; done; true")
    return said.split()


def imports(image: BuiltImage, *modules: str) -> dict[str, bool]:
    """Which of these could be imported."""
    program = (
        f"import importlib.util, json; print(json.dumps({{m: bool(importlib.util.find_spec(m)) for m in {modules}}}))"
    )
    answer: dict[str, bool] = json.loads(image.run("python", "-c", program))
    return answer


@pytest.mark.parametrize("name", ["disttest-operator", "disttest-runner"])
class TestBoth:
    def test_the_user_is_a_number_that_is_not_root(self, made: Mapping[str, BuiltImage], name: str) -> None:
        assert made[name].configuration()["User"] == "65532:65532"

    def test_labels_say_what_it_is_and_of_which_commit(self, made: Mapping[str, BuiltImage], name: str) -> None:
        labels = made[name].configuration()["Labels"]
        prefix = "org.opencontainers.image."
        assert labels[f"{prefix}title"] == name
        assert all(labels[f"{prefix}{key}"] for key in ("description", "version", "revision", "licenses", "base.name"))

    def test_code_is_the_last_layer_and_small(self, made: Mapping[str, BuiltImage], name: str) -> None:
        assert {file.split("/")[:2] == ["opt", "disttest"] for file in made[name].files_of_last_layer()} == {True}
        assert made[name].layer_bytes()[-1] < CODE_BYTES

    def test_all_code_has_byte_code_because_it_cannot_be_written_later(
        self, made: Mapping[str, BuiltImage], name: str
    ) -> None:
        files = made[name].files_of_last_layer()
        sources = [file for file in files if file.endswith(".py")]
        assert sources
        assert len(sources) == sum(file.endswith(".pyc") for file in files)

    def test_no_cache_of_an_installer_is_left(self, made: Mapping[str, BuiltImage], name: str) -> None:
        caches = "/root/.cache /tmp/uv /var/cache/apt/archives/*.deb /var/lib/apt/lists/*_Packages*"
        assert made[name].run("sh", "-c", f"ls -d {caches} 2> /dev/null || true") == ""


class TestOperator:
    def test_its_program_starts_with_a_read_only_root(self, operator: BuiltImage) -> None:
        said = operator.run(*operator.configuration()["Entrypoint"], "--help")
        assert "--runner-image" in said
        assert "exit code" not in said

    def test_it_has_the_command_line_for_nightly_runs(self, operator: BuiltImage) -> None:
        said = operator.run("disttest", "apply", "-f", "/tmp/missing.yaml")  # noqa: S108  # in the image
        assert said == "disttest: /tmp/missing.yaml cannot be read: No such file or directory\nexit code 2\n"

    def test_what_needs_the_runner_says_that_it_is_not_there(self, operator: BuiltImage) -> None:
        said = operator.run("disttest", "run", "-f", "/tmp/missing.yaml")  # noqa: S108  # in the image
        assert "needs the Python package 'disttest_runner', which is not installed" in said

    def test_it_has_neither_torch_nor_the_runner(self, operator: BuiltImage) -> None:
        modules = ("torch", "numpy", "pytest", "disttest_runner", "disttest_cli", "kopf", "disttest_contract")
        there = [name for name, there in imports(operator, *modules).items() if there]
        assert there == ["disttest_cli", "kopf", "disttest_contract"]

    def test_it_has_no_compiler(self, operator: BuiltImage) -> None:
        assert found(operator, *COMPILERS) == []

    def test_it_is_slim(self, operator: BuiltImage) -> None:
        assert operator.size_bytes() < OPERATOR_BYTES


class TestRunner:
    def test_without_a_plan_it_refuses_to_start_and_says_why(self, runner: BuiltImage) -> None:
        said = runner.run(*runner.configuration()["Entrypoint"])
        assert "DISTTEST_PLAN" in said
        assert said.endswith(f"exit code {REFUSES_TO_START}\n")

    def test_its_torch_is_the_pinned_one(self, runner: BuiltImage) -> None:
        said = runner.run("python", "-c", "import torch; print(torch.__version__.partition('+')[0])")
        assert said.strip() == constraint("torch")

    def test_it_has_what_suites_need(self, runner: BuiltImage) -> None:
        modules = ("numpy", "pytest", "expecttest", "yaml", "disttest_runner", "disttest_cli")
        assert all(imports(runner, *modules).values())
        assert len(found(runner, "g++", "py-spy", "disttest")) == 3

    def test_it_lies_on_the_layers_of_the_torch_image(self, runner: BuiltImage, torch: BuiltImage) -> None:
        layers = [layer["digest"] for layer in torch.manifest()["layers"]]
        assert [layer["digest"] for layer in runner.manifest()["layers"]][: len(layers)] == layers


class TestRunnerOnEachBase:
    """As the pod's user, with a read-only root."""

    def test_a_user_without_a_name_has_one(self, on_each_base: BuiltImage) -> None:
        assert on_each_base.run("python", "-c", "import getpass; print(getpass.getuser())") == "disttest\n"

    def test_extensions_of_python_can_be_compiled(self, on_each_base: BuiltImage) -> None:
        said = on_each_base.run("python", "-c", EXTENSION)
        assert said.splitlines() == ["gcc 42", "g++ 42", "triton can compile"]

    def test_it_has_what_nccl_needs_for_rdma(self, on_each_base: BuiltImage) -> None:
        program = "from ctypes import CDLL; CDLL('libibverbs.so.1'), CDLL('librdmacm.so.1'); print('loaded')"
        assert on_each_base.run("python", "-c", program) == "loaded\n"
        assert "mlx5.driver" in on_each_base.run("ls", "/etc/libibverbs.d").split()

    def test_every_module_that_is_imported_before_suites_can_be(self, on_each_base: BuiltImage) -> None:
        program = (
            "import os\n"
            "os.environ |= {'BACKEND': 'gloo', 'WORLD_SIZE': '2'}\n"  # torch's own tests read them when imported
            "from disttest_runner.cases import preload as p\n"
            "modules = [*p.ALWAYS, *sum(p.OF_SUITE.values(), ()), *p.SAFE_IN_ZYGOTES]\n"
            "p.import_modules(modules)\n"
            "print('tried', len(modules))\n"
        )
        said = on_each_base.run("python", "-W", "ignore", "-c", program)
        assert "cannot be imported" not in said
        assert "tried " in said

    def test_without_a_plan_it_refuses_to_start(self, on_each_base: BuiltImage) -> None:
        said = on_each_base.run(*on_each_base.configuration()["Entrypoint"])
        assert said.endswith(f"exit code {REFUSES_TO_START}\n")


def test_the_torch_image_has_nothing_of_ours(torch: BuiltImage) -> None:
    modules = ("torch", "numpy", "pytest", "disttest_runner", "disttest_contract")
    assert [name for name, there in imports(torch, *modules).items() if there] == ["torch", "numpy"]
    assert len(found(torch, "python", "python3", "g++")) == 3


def test_nothing_is_left_mounted(made: Mapping[str, BuiltImage]) -> None:
    where = str(next(iter(made.values())).where.root)
    assert [line for line in Path("/proc/self/mounts").read_text().splitlines() if where in line] == []
