# The operator's image: docker build -t tfoperator:0.1.0 .
# The image contains only Python, the operator and the libraries that they load. It contains no shell and no package manager.
#
# BASE is the image in which the files are built. The last stage copies only the needed files from there. `make base-image` asks the
# registry for the digest of this tag and writes the digest behind the name, so that all later builds have the same base.
ARG BASE=python:3.13-slim-trixie
# For builds without internet: an image that is BASE with wheels, and in which PIP_FIND_LINKS and PIP_NO_INDEX are set.
ARG BUILD_BASE=${BASE}

FROM ${BUILD_BASE} AS build
WORKDIR /src
# Install only the packages that tfoperator.operator imports (a test checks this), each with its hash. They have their own layer, so a build
# after a change of the code takes only seconds. The environment has no pip: the pip of /opt/tools, which is not in the image, fills it.
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
# The root file system may be read-only: pip has compiled the modules, and the operator writes no files there.
ENV PATH=/opt/tfoperator/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# The user is a number, because a kubelet can check runAsNonRoot only for numbers.
USER 65532:65532
# This command runs in the finished image. If the operator can't start there, the build fails.
RUN ["python", "-c", "import tfoperator.operator.__main__, tfoperator.servers.webhook, kubernetes.config.kube_config"]
EXPOSE 8080 8081 9443
ENTRYPOINT ["python", "-m", "tfoperator.operator"]
