# Image for tools that need common interpreters and build tools.
#
#   docker build -f deploy/docker/runner.Dockerfile -t ringfence-runner .
#   docker save -o runner.tar ringfence-runner && ringfence image import ringfence-runner runner.tar
#
# The second line makes it a root of native sandboxes as well.
#
# Programs run as an unprivileged user with a read-only root; `/workspace` and `/tmp` are writable.
FROM debian:bookworm-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        bash build-essential ca-certificates curl git jq nodejs npm python3 python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /workspace
