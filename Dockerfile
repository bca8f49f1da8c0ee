# One image for all parts: `gatelog ingest`, `project`, `actuate`, `serve`, `migrate`. The embedded NATS
# server is left out; a cluster has its own.
#
#   docker build -t gatelog:0.1.0 .
ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/gatelog
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY podgroup podgroup
COPY ingest ingest
COPY projector projector
COPY actuator actuator
COPY gatelog gatelog
COPY simcluster simcluster
COPY migrations migrations
COPY deploy deploy
RUN /opt/gatelog/bin/pip install '.[ingest,projector,actuator,serve,archive]' \
    && /opt/gatelog/bin/gatelog --help >/dev/null

FROM python:${PYTHON_VERSION}-slim
LABEL org.opencontainers.image.title="gatelog" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 65532 gatelog \
    && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /var/lib/gatelog gatelog \
    && install -d -o gatelog -g gatelog -m 0700 /var/lib/gatelog
COPY --from=build /opt/gatelog /opt/gatelog
ENV PATH=/opt/gatelog/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/gatelog
# By number, so that runAsNonRoot can be checked without reading /etc/passwd.
USER 65532:65532
EXPOSE 8081 8443 9443
ENTRYPOINT ["gatelog"]
CMD ["--help"]
