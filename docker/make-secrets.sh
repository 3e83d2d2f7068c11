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

for name in postgres-superuser-password postgres-owner-password postgres-password valkey-password secret-key; do
    keep "$name" "$(random)"
done
keep database-url "postgresql://poisonadmin:$(cat postgres-password)@postgres:5432/poisonadmin"
keep migration-database-url "postgresql://poisonadmin_owner:$(cat postgres-owner-password)@postgres:5432/poisonadmin"
keep redis-url "redis://:$(cat valkey-password)@valkey:6379/0"
