# The image of every PoisonAdmin process in docker-compose.yml. Node is the one of the lock file.
# Behind a registry with an authority of its own: --secret id=authorities,src=certificates.pem
FROM node:24.19.0-slim AS assets
WORKDIR /app
COPY package.json package-lock.json ./
# Of the icons only the outlines are drawn.
RUN --mount=type=secret,id=authorities \
    if [ -s /run/secrets/authorities ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/authorities; fi \
    && npm ci --ignore-scripts --no-audit --no-fund \
    && npm sbom --sbom-format cyclonedx > node.cdx.json \
    && cd node_modules/@tabler/icons \
    && rm -r categories docs icons/filled icons.json tabler-nodes-*.json

FROM python:3.11.14-slim AS packages
WORKDIR /app
COPY pyproject.toml requirements.lock ./
# Of the lock file what runs: no tests, and none of the services that have images of their own.
RUN --mount=type=secret,id=authorities \
    if [ -s /run/secrets/authorities ]; then export PIP_CERT=/run/secrets/authorities SSL_CERT_FILE=/run/secrets/authorities; fi \
    && sed -n '/^uv==/,/^    #/p' requirements.lock > /tmp/uv.txt \
    && pip install --no-cache-dir --require-hashes -r /tmp/uv.txt \
    && python -m venv --without-pip /opt/poisonadmin \
    && uv --system-certs pip install --python /opt/poisonadmin --no-cache --require-hashes -c requirements.lock \
        -r pyproject.toml --extra java \
    # Nothing of ours keeps states of streams, has Arrow's network protocol, or speaks another language than English.
    && cd /opt/poisonadmin/lib/python3.11/site-packages \
    && rm -r pyspark/jars/rocksdbjni-*.jar pyarrow/*flight* pyarrow/include pyarrow/tests \
    && find django allauth rest_framework -path '*/locale/*' -name 'django*.[mp]o' ! -path '*/locale/en/*' -delete

# Away from what is shipped: the locked dependencies leave this tool out.
FROM packages AS bill
RUN --mount=type=secret,id=authorities \
    if [ -s /run/secrets/authorities ]; then export SSL_CERT_FILE=/run/secrets/authorities; fi \
    && uv --system-certs tool run --from cyclonedx-bom==7.5.0 cyclonedx-py environment /opt/poisonadmin \
        --output-reproducible --output-file python.cdx.json

FROM python:3.11.14-slim
WORKDIR /app
ENV JAVA_HOME=/opt/java \
    PATH=/opt/poisonadmin/bin:$PATH \
    POISONADMIN_ALIVE_FILE=/tmp/alive \
    POISONADMIN_HOME=/var/lib/poisonadmin \
    POISONADMIN_STATIC_ROOT=/app/staticfiles \
    PYSPARK_PYTHON=/opt/poisonadmin/bin/python \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1
# Spark's scripts use ps. A cluster that lets no container run as root wants the number of the user.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 999 --user-group --home-dir /var/lib/poisonadmin --create-home poisonadmin
COPY --from=packages /opt/poisonadmin /opt/poisonadmin
COPY --from=assets /app ./
COPY --from=bill /app/python.cdx.json ./
# What .dockerignore lets through.
COPY . .
# The Java of the lock file, which also `make up` takes where a machine has none; and the front-end files.
RUN python -c 'from pathlib import Path; from poisonadmin.embedded.java import java_home; java_home(Path("/opt"), {})' \
    && DATABASE_URL=postgresql://nobody@localhost/none python manage.py collectstatic --no-input --verbosity 0 \
    && rm -f /var/lib/poisonadmin/secret-key
USER poisonadmin
EXPOSE 8000
# Of the web process; the compose file says what tells the health of the others.
CMD ["python", "-m", "poisonadmin.serve", "--host", "0.0.0.0", "--port", "8000"]
