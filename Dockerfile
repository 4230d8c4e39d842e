# Images of the operator and of the runner; neither needs root. docs/operating/images.md: arguments, layers, and how to build without Docker.
#   docker build --target operator -t disttest-operator:0.1.0 .
#   docker build --target runner -t disttest-runner:0.1.0 .                                  on a CUDA PyTorch image
#   docker build --target runner -t disttest-runner:0.1.0 --build-arg RUNNER_BASE=torch .    on Python with torch from PyPI
# Where TLS is intercepted: --secret id=ca,src=/etc/ssl/certs/ca-certificates.crt
ARG PYTHON_IMAGE=python:3.13-slim
ARG RUNNER_BASE=pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime
ARG UPSTREAM=upstream-none

FROM ${PYTHON_IMAGE} AS tools
COPY installer.txt /opt/requirements/
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
 && pip install --quiet --no-cache-dir --root-user-action=ignore --require-hashes -r /opt/requirements/installer.txt

# What each environment holds, pinned: a layer below is made anew only if its own pins change. The sums are those of
# constraints.txt: uv would write those that the index says today.
FROM tools AS requirements
WORKDIR /requirements
COPY pyproject.toml constraints.txt ./
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi \
 && pinned() { uv pip compile --quiet --no-cache --universal --python-version 3.11 --no-header --no-annotate \
      --constraints constraints.txt "$@" > names.txt \
      && awk 'NR == FNR { wanted[$1]; next } /^[a-z]/ { keep = $1 in wanted } keep' names.txt constraints.txt; } \
 && pinned --extra operator --extra cli pyproject.toml > operator.txt \
 && printf 'hatchling\n' | pinned - > build.txt \
 && printf 'torch\nnumpy\n' | pinned - > torch.txt \
 && printf 'pytest\nexpecttest\npyyaml\npy-spy\nclick\nrich\njinja2\n' | pinned - > runner.txt

FROM tools AS build
COPY --from=requirements /requirements/build.txt /requirements/
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi \
 && uv pip install --system --break-system-packages --no-cache --require-hashes -r /requirements/build.txt
WORKDIR /src
COPY pyproject.toml LICENSE ./
COPY runner runner
COPY operator operator
COPY cli cli
# The wheel carries the README, and an edit of that is no reason for new images.
RUN : > README.md && uv build --wheel --no-build-isolation --offline --out-dir /dist

FROM tools AS operator-environment
COPY --from=requirements /requirements/operator.txt /requirements/
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi \
 && uv venv --no-cache /opt/venv \
 && uv pip install --python /opt/venv --no-cache --compile-bytecode --require-hashes -r /requirements/operator.txt \
 && /opt/venv/bin/python -c 'import sysconfig; open(sysconfig.get_path("purelib") + "/disttest.pth", "w").write("/opt/disttest\n")'

FROM operator-environment AS operator-code
COPY --from=build /dist /dist
# `disttest apply` is in it, for nightlies; the runner is not.
# Byte code by hash, no times, nothing that names the whole wheel: a change of the runner leaves all of this as it is.
RUN uv pip install --python /opt/venv --no-cache --offline --no-deps --target /opt/disttest /dist/*.whl \
 && cd /opt/disttest && rm -r .lock disttest_runner \
      disttest-*/RECORD disttest-*/direct_url.json disttest-*/uv_cache.json \
 && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash . && find . -exec touch -d @0 {} +

FROM ${PYTHON_IMAGE} AS operator
COPY --from=operator-environment /opt/venv /opt/venv
COPY --from=operator-code /opt/disttest /opt/disttest
ENV PATH=/opt/disttest/bin:/opt/venv/bin:$PATH HOME=/tmp USER=disttest PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number: Kubernetes cannot see that a name is not root. It has neither home nor name, which libraries ask for.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["python", "-m", "disttest_operator"]
CMD []
ARG PYTHON_IMAGE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="disttest-operator" \
      org.opencontainers.image.description="Runs DistTests on a Kubernetes cluster and keeps their results" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}"

# Somebody's own image of torch: nothing of ours is in it. inductor needs a C++ compiler.
FROM ${PYTHON_IMAGE} AS torch
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends g++ \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=requirements /requirements/torch.txt /opt/requirements/installer.txt /opt/requirements/
# The byte code of torch halves the start of every gang; at run time nobody could write it.
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca; fi \
 && pip install --quiet --no-cache-dir --root-user-action=ignore --target /tmp/uv --require-hashes \
      -r /opt/requirements/installer.txt \
 && /tmp/uv/bin/uv pip install --python "$(command -v python)" --break-system-packages --no-cache --compile-bytecode \
      --require-hashes -r /opt/requirements/torch.txt \
 && rm -r /tmp/uv
ARG PYTHON_IMAGE
LABEL org.opencontainers.image.title="disttest-torch" \
      org.opencontainers.image.description="Python with PyTorch and a C++ compiler" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}"

# torch and numpy are the base's and stay as they are; what else the runner needs is in runner.txt. Without libibverbs,
# NCCL uses TCP instead of RDMA, and only its log shows that. Inductor and triton need compilers and Python's headers,
# which PyTorch's runtime images lack: Debian's headers also fit another build of the same version of Python.
FROM ${RUNNER_BASE} AS runner-environment
USER 0:0
COPY --from=requirements /requirements/runner.txt /opt/requirements/installer.txt /opt/requirements/
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca; fi \
 && include=$(python -c 'import sysconfig; print(sysconfig.get_path("include", scheme="posix_prefix"))') \
 && rdma="from ctypes import CDLL; CDLL('libibverbs.so.1'), CDLL('librdmacm.so.1')" \
 && if ! { command -v gcc && command -v g++ && [ -e "$include/Python.h" ] && python -c "$rdma"; } > /dev/null 2>&1; then \
      export DEBIAN_FRONTEND=noninteractive && apt-get update -q \
      && apt-get install -qy --no-install-recommends g++ libibverbs1 ibverbs-providers librdmacm1 \
      && if [ ! -e "$include/Python.h" ]; then \
           if apt-get install -qy --no-install-recommends "lib${include##*/}-dev"; then \
             [ -e "$include/Python.h" ] || { mkdir -p "${include%/*}" && ln -s "/usr/include/${include##*/}" "$include"; }; \
           else echo "The image has no headers of its Python: compiled cases will be skipped." >&2; fi; \
         fi \
      && apt-get clean && rm -rf /var/lib/apt/lists/*; \
    fi \
 && python -c "$rdma" \
 && python -c "import torch, numpy" \
 && pip install --quiet --no-cache-dir --root-user-action=ignore --target /tmp/uv --require-hashes \
      -r /opt/requirements/installer.txt \
 && /tmp/uv/bin/uv pip install --python "$(command -v python)" --break-system-packages --no-cache --compile-bytecode \
      --require-hashes -r /opt/requirements/runner.txt \
 && rm -r /tmp/uv \
 && python -c 'import sysconfig; open(sysconfig.get_path("purelib") + "/disttest.pth", "w").write("/opt/disttest\n")'

# torch's own tests for /opt/pytorch: none, ...
FROM tools AS upstream-none
RUN mkdir -p /opt/pytorch

# ... or those of the commit that the base's torch was built from, ...
FROM ${RUNNER_BASE} AS upstream-git
ARG PYTORCH_REPOSITORY=https://github.com/pytorch/pytorch
ARG PYTORCH_REVISION=
USER 0:0
WORKDIR /opt/pytorch
RUN if ! command -v git > /dev/null; then \
      apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends git ca-certificates; \
    fi
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export GIT_SSL_CAINFO=/run/secrets/ca; fi \
 && wanted=${PYTORCH_REVISION:-$(python -c 'import torch; print(torch.version.git_version)')} \
 && tag=v$(python -c 'import torch; print(torch.__version__.partition("+")[0])') \
 && git init -q . && git sparse-checkout set --no-cone /test /version.txt \
 && git remote add origin "$PYTORCH_REPOSITORY" \
 && { git fetch -q --depth 1 --filter=blob:none origin "$wanted" \
      || git fetch -q --depth 1 --filter=blob:none origin "refs/tags/$tag"; } \
 && found=$(git rev-parse 'FETCH_HEAD^{commit}') \
 && if [ "$found" != "$wanted" ]; then \
      echo "$tag of $PYTORCH_REPOSITORY is $found, but this torch was built from $wanted: name its repository as" \
           "PYTORCH_REPOSITORY, or give a checkout: --build-arg UPSTREAM=upstream-checkout --build-context pytorch=DIR" >&2; \
      exit 1; \
    fi \
 && git checkout -q --detach "$found" \
 && find .git -mindepth 1 -maxdepth 1 ! -name HEAD -exec rm -r {} +

# ... or a clone at hand: --build-arg UPSTREAM=upstream-checkout --build-context pytorch=DIR
FROM scratch AS upstream-checkout
COPY --from=pytorch test /opt/pytorch/test
COPY --from=pytorch version.txt /opt/pytorch/version.txt
COPY --from=pytorch .git/HEAD /opt/pytorch/.git/HEAD

FROM ${UPSTREAM} AS upstream

FROM runner-environment AS runner-code
COPY --from=build /dist /dist
RUN pip install --quiet --no-cache-dir --root-user-action=ignore --no-index --no-deps --no-compile --target /opt/disttest /dist/*.whl \
 && cd /opt/disttest && rm -r disttest-*/RECORD disttest-*/direct_url.json \
 && python -m compileall -q --invalidation-mode unchecked-hash . && find . -exec touch -d @0 {} +

FROM runner-environment AS runner
COPY --from=upstream /opt/pytorch /opt/pytorch
COPY --from=runner-code /opt/disttest /opt/disttest
ENV PATH=/opt/disttest/bin:$PATH HOME=/tmp USER=disttest PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["python", "-m", "disttest_runner"]
CMD []
ARG RUNNER_BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="disttest-runner" \
      org.opencontainers.image.description="Runs the ranks of a DistTest: PyTorch, NCCL and the suites" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${RUNNER_BASE}"
