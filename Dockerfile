# syntax=docker/dockerfile:1
# Images of the operator and of the runner; neither needs root.
#   docker build --target operator -t disttest-operator:0.1.0 .
#   docker build --target runner -t disttest-runner:0.1.0 --build-arg TORCH_IMAGE=<CUDA PyTorch image> .
ARG PYTHON_IMAGE=python:3.13-slim
ARG TORCH_IMAGE=pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime

FROM ${PYTHON_IMAGE} AS build
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /src
COPY pyproject.toml README.md constraints.txt ./
COPY runner runner
COPY operator operator
COPY cli cli
RUN uv build --wheel --build-constraints constraints.txt --out-dir /dist

FROM build AS operator-environment
RUN uv venv /opt/disttest \
 && uv pip install --python /opt/disttest/bin/python --no-cache --compile-bytecode \
      --constraints constraints.txt "disttest[operator] @ file://$(echo /dist/*.whl)"

FROM ${PYTHON_IMAGE} AS operator
ARG VERSION=0.1.0.dev0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="disttest-operator" \
      org.opencontainers.image.description="Runs DistTests on a Kubernetes cluster and keeps their results" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=operator-environment /opt/disttest /opt/disttest
ENV PATH=/opt/disttest/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number: Kubernetes cannot see that a name is not root.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["python", "-m", "disttest_operator"]

FROM ${TORCH_IMAGE} AS runner
ARG VERSION=0.1.0.dev0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="disttest-runner" \
      org.opencontainers.image.description="Runs the ranks of a DistTest: PyTorch, NCCL and the suites" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 0:0
# torch and numpy are the base image's: --no-deps keeps them, and what else the runner needs is named here.
RUN --mount=type=bind,from=build,source=/src/constraints.txt,target=/tmp/constraints.txt \
    --mount=type=bind,from=build,source=/usr/local/bin/uv,target=/usr/local/bin/uv \
    --mount=type=bind,from=build,source=/dist,target=/dist \
    uv pip install --system --break-system-packages --no-cache --constraints /tmp/constraints.txt pytest pyyaml \
 && uv pip install --system --break-system-packages --no-cache --no-deps /dist/*.whl \
 && python -c "import torch, numpy, pytest, yaml, disttest_runner"
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["python", "-m", "disttest_runner"]
