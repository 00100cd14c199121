# percdl in a container: the shell, the studio, a site of a federation, or its relay. Nothing runs as
# root, and the file system may be read-only.
#
#   docker build -t percdl .
#   docker run --rm --read-only --tmpfs /tmp -v "$PWD:/data" percdl fit walks/ --sfreq 100
#   docker run --rm -it -p 127.0.0.1:8000:8000 -v "$PWD:/data" percdl \
#       studio --host 0.0.0.0 --port 8000 --no-open
#
# /data holds your files, and /cache compiled programs. Both must be writable for user 10001, or for
# the one you choose with --user.
ARG BASE=docker.io/library/python:3.12-slim

FROM ${BASE} AS build
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN python3 -m venv /opt/percdl \
    && /opt/percdl/bin/pip install --no-cache-dir '/src[plot,data,federated,studio]'

FROM ${BASE}
RUN useradd --system --uid 10001 --user-group --home-dir /data percdl \
    && install -d -o percdl -g percdl -m 0700 /data /cache
COPY --from=build /opt/percdl /opt/percdl
ENV PATH="/opt/percdl/bin:${PATH}" \
    PERCDL_CACHE_DIR=/cache \
    MPLCONFIGDIR=/tmp/matplotlib \
    PYTHONDONTWRITEBYTECODE=1
USER percdl
WORKDIR /data
VOLUME ["/data", "/cache"]
EXPOSE 8000
# Set HEALTH_URL for a container that serves, for a relay https://localhost:8000/health. Its certificate
# is for others, so it is not checked here.
HEALTHCHECK --interval=60s --timeout=30s --start-period=60s CMD ["python", "-c", \
    "import os, ssl, urllib.request as web; u = os.environ.get('HEALTH_URL'); u and web.urlopen(u, timeout=20, context=ssl._create_unverified_context())"]
ENTRYPOINT ["percdl"]
CMD ["--help"]
