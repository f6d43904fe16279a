# The operator's image: docker build -t tfoperator:0.1.0 .
# It holds Python, the operator and the libraries that they load: no shell, no package manager, no other program.
#
# BASE is what the image is made from, and nothing of it is in the image but what is copied. `make base-image` asks its
# registry for the digest of this tag and writes it behind the name, so that each build after that has the same base.
ARG BASE=python:3.13-slim-trixie
# Where there is no internet: BASE with wheels in it, and PIP_FIND_LINKS and PIP_NO_INDEX set.
ARG BUILD_BASE=${BASE}

FROM ${BUILD_BASE} AS build
WORKDIR /src
# Everything by its hash, and only what tfoperator.operator imports (a test compares), in a layer of its own, so that a change
# of code costs seconds. The environment has no installer: it is filled by that of another one, which stays here.
COPY requirements requirements
RUN python -m venv /opt/tools && python -m venv --without-pip /opt/tfoperator \
    && /opt/tools/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: -r requirements/build.lock \
    && /opt/tools/bin/pip --python=/opt/tfoperator/bin/python install --no-cache-dir --no-deps \
       --require-hashes --only-binary=:all: -r requirements/operator.lock
COPY pyproject.toml setup.cfg README.md LICENSE ./
COPY tfoperator tfoperator
COPY hack/image_root.py hack/image_root.py
RUN /opt/tools/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir=dist . \
    && /opt/tools/bin/pip --python=/opt/tfoperator/bin/python install --no-cache-dir --no-deps --no-index \
       --find-links=dist tfoperator \
    && python hack/image_root.py /opt/tfoperator /image

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="tfoperator" \
      org.opencontainers.image.description="Runs distributed TensorFlow jobs (TFJob) on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image /
COPY --from=build /opt/tfoperator /opt/tfoperator
# The root file system may be read-only: modules were compiled at installation, and nothing else is written.
ENV PATH=/opt/tfoperator/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Numeric, so that a kubelet can verify runAsNonRoot.
USER 65532:65532
# An image that can't start should not be made; this runs in what is the image.
RUN ["python", "-c", "import tfoperator.operator.__main__, tfoperator.servers.webhook, kubernetes.config.kube_config"]
EXPOSE 8080 8081 9443
ENTRYPOINT ["python", "-m", "tfoperator.operator"]
