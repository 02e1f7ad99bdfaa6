# deploy/image/requirements.txt is a lock of hashes; deploy/image/lock writes it. docs/operations.md has the steps.
FROM python:3.11-slim AS build

# The address of PyTorch's CPU wheels (pytorch.org, "Get started"): no other index has the one in the lock.
ARG TORCH_INDEX
WORKDIR /source
RUN test -n "$TORCH_INDEX" || { echo "pass the address of PyTorch's CPU wheels as TORCH_INDEX" >&2; exit 1; } \
    && python -m venv /venv
ENV PATH=/venv/bin:$PATH
COPY deploy/image/requirements.txt ./
RUN pip install --no-cache-dir --require-hashes --extra-index-url "$TORCH_INDEX" -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY camvo camvo
COPY backend backend
COPY label_config label_config
# The lock holds what the extras need, and setuptools; hadolint takes the folder for a package.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --no-deps --no-build-isolation ".[demo,otel,postgres]" && pip check

FROM python:3.11-slim

COPY --from=build /venv /venv
RUN useradd --no-create-home --uid 10001 camvo && mkdir /data && chown camvo /data
# The root may be read-only: only /data and /tmp are written to.
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HOME=/tmp MPLCONFIGDIR=/tmp/matplotlib HF_HOME=/data/huggingface \
    CAMVO_DATABASE_URL=sqlite:////data/camvo.sqlite CAMVO_HOST=0.0.0.0
WORKDIR /data
USER 10001
VOLUME /data
EXPOSE 9090
HEALTHCHECK --interval=30s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9090/health', timeout=2)"]
CMD ["camvo", "serve"]
