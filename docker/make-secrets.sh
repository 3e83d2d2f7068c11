#!/bin/sh
# Makes the secrets of docker-compose.yml in `secrets`, those that are missing. The containers' users read the files;
# nobody else enters the directory.
set -eu
directory=${1:-"$(dirname "$0")/../secrets"}
umask 022
mkdir -p "$directory"
chmod 700 "$directory"
cd "$directory"

keep() {
    [ -e "$1" ] || { printf %s "$2" > ".$1" && mv ".$1" "$1"; }
}
random() {
    head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'
}

for name in postgres-superuser-password postgres-owner-password postgres-password valkey-password secret-key encryption-keys; do
    keep "$name" "$(random)"
done
keep database-url "postgresql://poisonadmin:$(cat postgres-password)@postgres:5432/poisonadmin"
keep migration-database-url "postgresql://poisonadmin_owner:$(cat postgres-owner-password)@postgres:5432/poisonadmin"
# Two applications share the slots of a cluster, and nobody ends one from a page of Spark.
keep spark-defaults.conf "$(printf '%s\n' 'spark.authenticate true' "spark.authenticate.secret $(random)" \
    'spark.network.crypto.enabled true' 'spark.cores.max 24' 'spark.ui.killEnabled false' 'spark.speculation false' \
    'spark.python.daemon.module workers.spark.daemon')
"
keep redis-url "redis://:$(cat valkey-password)@valkey:6379/0"
