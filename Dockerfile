# The image of every PoisonAdmin process in docker-compose.yml. Node is the one of the lock file.
FROM node:24.19.0-slim AS assets
WORKDIR /app
COPY package.json package-lock.json ./
# Of the icons only the outlines are drawn.
RUN npm ci --ignore-scripts --no-audit --no-fund \
    && cd node_modules/@tabler/icons \
    && rm -r categories docs icons/filled icons.json tabler-nodes-*.json

FROM python:3.11.14-slim
# Spark starts Java, and its scripts use ps.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements.lock ./
RUN sed -n '/^uv==/,/^    #/p' requirements.lock > /tmp/uv.txt \
    && pip install --no-cache-dir --require-hashes -r /tmp/uv.txt \
    && uv pip install --system --no-cache --require-hashes -r requirements.lock
COPY --from=assets /app/node_modules node_modules
COPY manage.py ./
COPY poisonadmin poisonadmin
COPY workers workers
COPY templates templates
COPY static static
COPY docs/use docs/use
COPY docs/operate docs/operate
RUN useradd --system --user-group --home-dir /var/lib/poisonadmin --create-home poisonadmin
USER poisonadmin
ENV JAVA_HOME=/usr/lib/jvm/default-java \
    POISONADMIN_HOME=/var/lib/poisonadmin \
    PYSPARK_PYTHON=/usr/local/bin/python \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1
