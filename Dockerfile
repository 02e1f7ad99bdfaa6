FROM python:3.11-slim

# Pass the address of PyTorch's CPU wheels (pytorch.org, "Get started") as TORCH_INDEX: the default wheel
# brings several GB of GPU libraries.
ARG TORCH_INDEX
WORKDIR /app
COPY constraints.txt pyproject.toml README.md LICENSE ./
# torch is pinned; hadolint takes the option behind it for a package.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir torch==2.13.0 ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
COPY camvo camvo
COPY backend backend
COPY label_config label_config
# constraints.txt pins everything.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir ".[demo,postgres]" -c constraints.txt \
    && useradd --create-home --uid 10001 camvo \
    && mkdir /data \
    && chown camvo /data

USER 10001
VOLUME /data
ENV CAMVO_DATABASE_URL=sqlite:////data/camvo.sqlite CAMVO_HOST=0.0.0.0
EXPOSE 9090
HEALTHCHECK --interval=30s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9090/health', timeout=2)"]
CMD ["camvo", "serve"]
