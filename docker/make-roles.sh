#!/bin/sh
# Run once by the image of PostgreSQL, on an empty volume: the two roles of docs/operate/production.md.
set -eu
secrets=${SECRETS:-/run/secrets}
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username=postgres --dbname=postgres <<SQL
\set owner_password \`cat "$secrets/postgres-owner-password"\`
\set password \`cat "$secrets/postgres-password"\`
CREATE ROLE poisonadmin_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE poisonadmin LOGIN PASSWORD :'password';
CREATE DATABASE poisonadmin OWNER poisonadmin_owner ENCODING 'UTF8' TEMPLATE template0;
SQL
