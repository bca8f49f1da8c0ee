# One image for all parts: `gatelog up`, `ingest`, `project`, `actuate`, `serve`, `migrate`. It holds
# Python, gatelog with what its parts import, and a NATS server (for `up` alone); no pip, no compiler,
# no stand-in of a cluster and so no `gatelog demo`, which says to run it in a checkout.
#
#   docker build -t gatelog:0.2.0 --build-arg REVISION=$(git rev-parse HEAD) .
ARG PYTHON_VERSION=3.11
# Where public images come from: --build-arg MIRROR=registry.example/mirror for one of yours.
ARG MIRROR=docker.io/library

FROM ${MIRROR}/python:${PYTHON_VERSION}-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv --without-pip /opt/gatelog && python -m venv /opt/pip
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY podgroup podgroup
COPY runtime runtime
COPY ingest ingest
COPY projector projector
COPY actuator actuator
COPY gatelog gatelog
COPY simcluster simcluster
COPY migrations migrations
COPY deploy deploy
ARG REVISION=""
# Compiled here, since no part can write beside its modules. Left out: sources of C modules, uvloop's
# symbols (12 MB), and the API and models of kubernetes_asyncio (45 MB), of which only what reads
# kubeconfigs is loaded (runtime/kubeconfig.py).
RUN apt-get update && apt-get install -y --no-install-recommends binutils
RUN /opt/pip/bin/pip --python /opt/gatelog/bin/python install --no-compile \
        '.[ingest,projector,actuator,serve,archive,embedded]' \
    && cd /opt/gatelog/lib/python*/site-packages \
    && rm -rf simcluster gatelog/demo sqlalchemy/testing \
        kubernetes_asyncio/client/models kubernetes_asyncio/client/api \
    && strip --strip-unneeded uvloop/loop*.so \
    && find . \( -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' \) -delete \
    && /opt/gatelog/bin/python -m compileall -q --invalidation-mode unchecked-hash . \
    && printf '%s' "$REVISION" > gatelog/REVISION \
    && /opt/gatelog/bin/python -c 'from runtime import kubeconfig; kubeconfig.library()' \
    && /opt/gatelog/bin/gatelog version
# What is in it, for those who look for known defects: sbom.cdx.json.
RUN /opt/pip/bin/pip install 'cyclonedx-bom>=7,<8' \
    && /opt/pip/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
        --output-file /opt/gatelog/sbom.cdx.json /opt/gatelog/bin/python

FROM ${MIRROR}/python:${PYTHON_VERSION}-slim
ARG REVISION=""
LABEL org.opencontainers.image.title="gatelog" \
      org.opencontainers.image.description="Queues plain pods and pod groups by their scheduling gates" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN rm -rf /usr/local/lib/python*/site-packages/* /usr/local/bin/pip* /usr/local/lib/python*/ensurepip \
    && groupadd --gid 65532 gatelog \
    && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /var/lib/gatelog gatelog \
    && install -d -o gatelog -g gatelog -m 0700 /var/lib/gatelog
COPY --from=build /opt/gatelog /opt/gatelog
# Two arenas, and freed memory given back: in one pod with all parts that is 11 MiB of 137.
ENV PATH=/opt/gatelog/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    MALLOC_ARENA_MAX=2 MALLOC_TRIM_THRESHOLD_=131072
WORKDIR /var/lib/gatelog
# By number, so that runAsNonRoot can be checked without reading /etc/passwd.
USER 65532:65532
EXPOSE 8081 8443 9443
ENTRYPOINT ["gatelog"]
CMD ["--help"]
