# The image of every PoisonAdmin process in docker-compose.yml. Node is the one of the lock file.
# Behind a registry with an authority of its own: --secret id=authorities,src=certificates.pem
FROM node:24.19.0-slim AS assets
WORKDIR /app
COPY package.json package-lock.json ./
# Of the icons only the outlines are drawn.
RUN --mount=type=secret,id=authorities \
    if [ -s /run/secrets/authorities ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/authorities; fi \
    && npm ci --ignore-scripts --no-audit --no-fund \
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
    && uv --system-certs pip install --python /opt/poisonadmin --no-cache --require-hashes -r pyproject.toml -c requirements.lock

FROM python:3.11.14-slim
# Spark starts Java, and its scripts use ps.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --home-dir /var/lib/poisonadmin --create-home poisonadmin
WORKDIR /app
ENV JAVA_HOME=/usr/lib/jvm/default-java \
    PATH=/opt/poisonadmin/bin:$PATH \
    POISONADMIN_HOME=/var/lib/poisonadmin \
    PYSPARK_PYTHON=/opt/poisonadmin/bin/python \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1
COPY --from=packages /opt/poisonadmin /opt/poisonadmin
COPY --from=assets /app/node_modules node_modules
COPY manage.py ./
COPY poisonadmin poisonadmin
COPY workers workers
COPY templates templates
COPY static static
COPY docs/use docs/use
COPY docs/operate docs/operate
USER poisonadmin
EXPOSE 8000
# Of the web process; the compose file says what tells the health of the others.
CMD ["python", "-m", "poisonadmin.serve", "--host", "0.0.0.0", "--port", "8000"]
