# The operator's image: docker build -t tfoperator:0.1.0 .
# It holds Python, the operator and the libraries that the operator imports, nothing of the command line's.
# The build and the final stage must have the same base, since a virtual environment points at its interpreter.
ARG BASE=python:3.13-slim
# Where there is no internet: BASE with wheels in it, and PIP_FIND_LINKS and PIP_NO_INDEX set.
ARG BUILD_BASE=${BASE}

FROM ${BUILD_BASE} AS build
WORKDIR /src
RUN python -m venv /opt/tfoperator
# Only what tfoperator.operator imports (a test compares); in a layer of its own, so that a change of code costs seconds.
COPY constraints.txt ./
RUN /opt/tfoperator/bin/pip install --no-cache-dir -c constraints.txt \
    kubernetes msgspec cachetools tenacity prometheus-client PyYAML cryptography \
    # A third of everything, and the operator is not asynchronous.
    && rm -r /opt/tfoperator/lib/python*/site-packages/kubernetes/aio
COPY pyproject.toml setup.cfg README.md LICENSE ./
COPY tfoperator tfoperator
RUN /opt/tfoperator/bin/pip install --no-cache-dir --no-deps . \
    # An image that can't start should not be made.
    && /opt/tfoperator/bin/python -m tfoperator.operator --version \
    && /opt/tfoperator/bin/python -c "import kubernetes.config" \
    && /opt/tfoperator/bin/pip uninstall --yes --quiet pip

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="tfoperator" \
      org.opencontainers.image.description="Runs distributed TensorFlow jobs (TFJob) on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/tfoperator /opt/tfoperator
# The root file system may be read-only: modules were compiled at installation, and nothing else is written.
ENV PATH=/opt/tfoperator/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Numeric, so that a kubelet can verify runAsNonRoot.
USER 65532:65532
EXPOSE 8080 8081 9443
ENTRYPOINT ["python", "-m", "tfoperator.operator"]
